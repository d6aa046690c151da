"""How true a model holds an answer: against a loop over texts, and from the command line."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from entity_linking.mentions import LinkedText, Mention
from kept import hosts
from kept.apps.cli import app
from kept.errors import ConfigError
from kept.graphs.builder import BuilderConfig
from kept.lab.probing.engine import probe
from kept.lab.probing.items.item import HOLE, ClozeItem
from kept.lab.probing.models.enriched import KeptMaskedLM
from kept.lab.probing.models.truth import truths
from kept.lab.probing.opening import open_model
from kept.objectives.described_triples import text_batch
from kept.objectives.mentions.truth import MentionTruth
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder

OBJECTS = {"P1": ["city", "river", "old city", "the seine", "bonn"]}
TEXTS = ("the [Y] flows .", "near the old city of a [Y] of the river", "[Y] near")


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph, tokenizer: Any
) -> Path:
    """An untrained WKLM whose heads tell mentions and words apart."""
    folder = tmp_path_factory.mktemp("wklm")
    encoder = method_encoder("wklm", small_graph, tokenizer)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = KnowledgeForPreTraining.of(encoder, {"mlm": {}, "mention_truth": {}})
        for parameter in model.objectives.parameters():
            parameter.data.normal_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = {"graph": dataclasses.asdict(BuilderConfig())}
    (folder / "pretrain.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def items() -> list[ClozeItem]:
    items_ = []
    for text, answer in zip(TEXTS, ("river", "old city", "bonn"), strict=True):
        hole = Mention(text.index(HOLE), text.index(HOLE) + len(HOLE))
        items_.append(ClozeItem(text, "P1", LinkedText(text, ()), hole, "s", answer))
    return items_


@cache
def opened(folder: Path) -> KnowledgeForPreTraining:
    return KnowledgeForPreTraining.from_pretrained(folder).eval()


@torch.no_grad()
def by_loop(folder: Path, tokenizer: Any, text: str, name: str, first_word: float) -> float:
    """One text, one candidate: the head's own classes on both sides of it."""
    model = opened(folder)
    before, _ = text.split(HOLE)
    n_before = 1 + len(tokenizer(before, add_special_tokens=False)["input_ids"])
    n_own = len(tokenizer(name, add_special_tokens=False)["input_ids"])
    ids = tokenizer(text.replace(HOLE, name))["input_ids"]
    states = model.encoder(text_batch([ids], pad_id=0)).node_states[0]
    head, words = model.objectives["mention_truth"], model.objectives["mlm"]
    assert isinstance(head, MentionTruth)
    transformed = words.transform(states)
    sides = torch.cat([transformed[n_before - 1], transformed[n_before + n_own]])
    score = head.classes[0](sides).softmax(-1)[1]
    table = hosts.word_table(model.encoder.host).weight
    chances = (transformed[n_before] @ table.T + words.bias).softmax(-1)
    return float(score + first_word * chances[ids[n_before]])


@pytest.mark.parametrize("first_word", [0.0, 3.0])
@pytest.mark.parametrize("batch_size", [1, 48])
def test_objects_are_ranked_by_how_true_they_are(
    folder: Path, tokenizer: Any, first_word: float, batch_size: int
) -> None:
    result = probe(
        open_model(folder), items(), vocabulary=["a", "river"], objects=OBJECTS,
        likelihood="truth", first_word=first_word, batch_size=batch_size,
    )  # fmt: skip
    assert result.likelihood == "truth"
    for answer, item in zip(result.answers, items(), strict=True):
        names = OBJECTS["P1"]
        scores = {n: by_loop(folder, tokenizer, item.linked.text, n, first_word) for n in names}
        assert answer.objects is not None
        assert answer.objects.score == pytest.approx(scores[item.answer], abs=1e-4)
        assert answer.objects.top == tuple(sorted(names, key=lambda n: -scores[n]))
    river = result.answers[0].restricted
    masked = probe(open_model(folder), items(), vocabulary=["a", "river"], objects=None)
    expected = masked.answers[0].restricted
    assert river is not None
    assert expected is not None
    assert (river.rank, river.top) == (expected.rank, expected.top)
    assert river.score == pytest.approx(expected.score, abs=1e-5)


def test_who_cannot_tell_is_refused(
    folder: Path, small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    encoder = method_encoder("none", small_graph, tokenizer)
    plain = KeptMaskedLM(KnowledgeForPreTraining.of(encoder, {"mlm": {}}), tokenizer, "weights")
    with pytest.raises(ConfigError, match="cannot judge whether a mention is true"):
        probe(plain, items(), vocabulary=None, objects=OBJECTS, likelihood="truth")
    alone = KnowledgeForPreTraining.of(
        method_encoder("wklm", small_graph, tokenizer), {"mention_truth": {}}
    )
    batch = text_batch([[2, 5, 6, 3]], pad_id=0)
    with pytest.raises(ConfigError, match="trained with mlm"):
        truths(alone, batch, torch.tensor([[1, 2]]), first_word=1.0)


def test_the_command(folder: Path, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    small_graph.save(tmp_path / "kg")
    command = ["probe", str(folder), "--kg", str(tmp_path / "kg"), "--relations", "P17"]
    output = CliRunner().invoke(app, [*command, "--truth", "-o", str(tmp_path / "out")])
    assert output.exit_code == 0, output.output
    assert "by how true the model judges" in output.output
    settings = json.loads((tmp_path / "out/scores.json").read_text("utf-8"))["weights"]["settings"]
    assert settings["likelihood"] == "truth"
    for wrong, says in (
        (["--truth", "--one-by-one"], "two ways to score"),
        (["--first-word", "1"], "--first-word adds to the score of --truth"),
    ):
        refused = CliRunner().invoke(app, [*command, *wrong])
        assert refused.exit_code != 0
        assert says in " ".join(refused.output.split())
