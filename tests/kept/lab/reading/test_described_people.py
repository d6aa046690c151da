"""The control of KEPLER: its world of described people, and what reads descriptions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kept.encoders.kepler import KEPLER
from kept.graphs.builder import BuilderConfig
from kept.graphs.views import WordsView
from kept.inputs.views import builder_for
from kept.lab.reading import descriptions
from kept.lab.reading.cell import Budget, Cell
from kept.lab.reading.descriptions import (
    OCCUPATION,
    _gradients,
    _Reader,
    described_people,
    run_descriptions,
)
from kept.lab.reading.worlds import OCCUPATIONS, WORKS, Size
from kept.methods import method
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.pretraining.data import WordGraphData
from tests.kept.tiny_hosts import tiny_host

SIZE = Size(n_train=16, n_test=8, n_returning=8)


def test_descriptions_say_what_a_person_does_and_never_the_occupation() -> None:
    world = described_people(SIZE, 3)
    n = world.n_known + SIZE.n_test
    assert world.n_known == SIZE.n_train_heads
    assert len(world.classes) == len(world.texts) == n
    for i, text in enumerate(world.texts):
        person = world.graph[f"H{i}"]
        assert text.text == person.description
        assert text.text == f"{person.label} {WORKS[int(world.classes[i])]}."
        assert not any(occupation in text.text for occupation in OCCUPATIONS)
    counts = [int((world.classes == c).sum()) for c in range(len(OCCUPATIONS))]
    assert max(counts) - min(counts) <= 1


def test_known_people_have_their_occupation_as_a_triple() -> None:
    world = described_people(SIZE, 3)
    graph = world.graph
    relation = graph.relations.id(OCCUPATION)
    occupations = {
        graph.entities.name(h): graph.entities.name(t)
        for h, r, t in graph.triples.tolist()
        if r == relation
    }
    assert occupations == {f"H{i}": f"C{world.classes[i]}" for i in range(world.n_known)}
    assert graph.n_triples == 2 * world.n_known


def test_variants_of_a_world_are_of_the_same_people() -> None:
    whole, known = described_people(SIZE, 3), described_people(SIZE, 3, known_only=True)
    assert len(known.texts) == known.n_known == whole.n_known
    assert known.texts == whole.texts[: whole.n_known]
    assert f"H{whole.n_known}" not in known.graph
    without_descriptions = described_people(SIZE, 3, is_described=False)
    assert without_descriptions.graph["H0"].label == whole.graph["H0"].label
    assert not without_descriptions.graph["H0"].description
    stated = [(c + 1) % len(OCCUPATIONS) for c in whole.classes.tolist()]
    other = described_people(SIZE, 3, stated=stated)
    assert other.classes.tolist() == whole.classes.tolist()
    assert other.texts[0].text.endswith(f"{WORKS[stated[0]]}.")
    assert described_people(SIZE, 4).texts != whole.texts


@pytest.fixture
def reader(tokenizer: Any) -> _Reader:
    world = described_people(SIZE, 3)
    host = tiny_host("bert", n_words=len(tokenizer), n_positions=64)
    encoder = KEPLER.from_host(host, world.graph)
    model = KnowledgeForPreTraining.of(encoder, {"ke": {"n_tokens": 24}})
    return _Reader(model, tokenizer, world.graph)


def test_reading_leaves_a_model_in_the_mode_that_it_was_in(reader: _Reader) -> None:
    world, people = described_people(SIZE, 3), torch.tensor([0, 1])
    reader.model.train()
    first, second = (reader.vectors(world.graph, people) for _ in range(2))
    torch.testing.assert_close(first, second)  # dropout is off while it reads
    assert reader.model.encoder.training
    reader.model.eval()
    reader.vectors(world.graph, people)
    assert not reader.model.encoder.training
    assert first.shape[0] == 2


def test_accuracy_is_the_share_of_right_occupations(reader: _Reader) -> None:
    world = described_people(SIZE, 3)
    heads = world.classes.argsort()[:5]
    best = reader.best(world.graph, heads)
    assert reader.accuracy(world, heads) == (best == world.classes[heads]).mean()
    rows = torch.tensor([world.graph.entities.id(f"H{i}") for i in heads.tolist()])
    scores = reader.scores(world.graph, rows)
    assert scores.shape == (5, len(OCCUPATIONS))
    assert scores.argmax(1).tolist() == best.tolist()


def test_training_sees_the_known_people_only(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The people of the evaluation are in no text and no graph that the training reads."""
    seen: list[WordGraphData] = []

    def stop(model: Any, data: WordGraphData, *_: Any, **__: Any) -> None:
        seen.append(data)
        raise KeyboardInterrupt

    monkeypatch.setattr(descriptions, "train", stop)
    cell = Cell(
        task="description", arm="kepler-published", condition="true", seed=3, size=SIZE,
        budget=Budget(steps=1),
    )  # fmt: skip
    host = tiny_host("bert", n_words=len(tokenizer), n_positions=64)
    with pytest.raises(KeyboardInterrupt):
        run_descriptions(cell, (host, tokenizer))
    graph, n_known = seen[0].graph, SIZE.n_train_heads
    people = {name for name in map(graph.entities.name, range(graph.n_entities)) if name[0] == "H"}
    assert people == {f"H{i}" for i in range(n_known)}
    assert len(seen[0]) == n_known


def test_gradients_are_those_of_the_first_batch(reader: _Reader, tokenizer: Any) -> None:
    """Triples and negatives are drawn by step: the batch of another has other gradients."""
    world = described_people(SIZE, 3, known_only=True)
    data = WordGraphData(
        world.texts, world.graph, tokenizer,
        builder=builder_for(method("kepler"), BuilderConfig(), {}), view=WordsView(),
        objectives={"ke": {"n_tokens": 24}}, require_links=False,
    )  # fmt: skip

    def norm(step: int) -> float:
        samples = [data.sample(i, epoch=0, seed=0) for i in range(4)]
        reader.model.zero_grad(set_to_none=True)
        reader.model.eval()
        batch = data.collate(samples, epoch=0, seed=0, step=step)
        reader.model(batch).losses["ke"].backward()
        host = reader.model.encoder.host.parameters()
        return float(sum(p.grad.square().sum() for p in host if p.grad is not None) ** 0.5)

    first, second = norm(0), norm(1)
    assert _gradients(reader.model, data)["host"] == pytest.approx(first)
    assert second != pytest.approx(first)
