"""The control of KEPLER: its world of described people, and what reads descriptions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kept.encoders.kepler import KEPLER
from kept.lab.reading.descriptions import OCCUPATION, _Reader, described_people
from kept.lab.reading.worlds import OCCUPATIONS, WORKS, Size
from kept.objectives.model import KnowledgeForPreTraining
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
    found = {
        graph.entities.name(h): graph.entities.name(t)
        for h, r, t in graph.triples.tolist()
        if r == relation
    }
    assert found == {f"H{i}": f"C{world.classes[i]}" for i in range(world.n_known)}
    assert graph.n_triples == 2 * world.n_known


def test_variants_of_a_world_are_of_the_same_people() -> None:
    whole, known = described_people(SIZE, 3), described_people(SIZE, 3, known_only=True)
    assert len(known.texts) == known.n_known == whole.n_known
    assert known.texts == whole.texts[: whole.n_known]
    assert f"H{whole.n_known}" not in known.graph
    bare = described_people(SIZE, 3, is_described=False)
    assert bare.graph["H0"].label == whole.graph["H0"].label
    assert not bare.graph["H0"].description
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
