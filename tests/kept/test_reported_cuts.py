"""Whatever reads texts counts what it cuts of them, and says what helps."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from entity_linking.mentions import Link, LinkedText, Mention
from kept.apps.cli import app
from kept.auto import AutoEncoder
from kept.graphs.builder import BuilderConfig
from kept.graphs.cuts import cut_of_rows
from kept.graphs.words import Words
from kept.heads.model import KnowledgeForTask
from kept.hosts import load_host, load_tokenizer
from kept.methods import METHODS
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.datasets.example import question
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph
from tests.kept.tiny_hosts import method_encoder
from tests.kept.training.tiny_pretraining import write_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_host(tmp_path_factory.mktemp("host"))


def _long(n: int) -> LinkedText:
    """A linked word, `n` words of one piece, and another linked word."""
    text = f"old {'the ' * n}old"
    spans = ((0, 3), (len(text) - 3, len(text)))
    return LinkedText(text, tuple(Link(Mention(*span), (), None, 1.0) for span in spans))


def test_an_encoder_counts_what_it_does_not_read(
    host: Path, small_graph: KnowledgeGraph, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = AutoEncoder.from_host("kbert", host, small_graph, builder=BuilderConfig(max_words=20))
    with caplog.at_level(logging.WARNING, logger="kept"):
        encoded = encoder.encode(
            [_long(3), _long(30), _long(16), _long(17)], small_graph, long="cut"
        )
    cut = encoded.cut
    assert cut is not None
    counts = (cut.n_texts, cut.n_cut, cut.n_pieces_lost, cut.n_links, cut.n_links_lost)
    assert counts == (4, 2, 14 + 1, 8, 2)
    assert "2 of 4 texts cut at 20 word pieces" in caplog.text
    assert (
        "the host reads 52: give builder=BuilderConfig(max_words=52, max_nodes=104)" in caplog.text
    )
    assert "2 of 4 texts cut" in repr(encoded)


@pytest.mark.parametrize("max_words", [4, 5, 8, 20, 51, 52])
def test_the_account_of_any_cut(max_words: int, host: Path, small_graph: KnowledgeGraph) -> None:
    """Every length round the limit, counted by hand: a word is a piece, two pieces are the host's.

    The first link of a text is always read, the second, at its end, only where all of it is.
    """
    builder = BuilderConfig(max_words=max_words)
    encoder = AutoEncoder.from_host("kbert", host, small_graph, builder=builder)
    room = max_words - 2
    for n in {0, 1, room - 3, room - 2, room - 1, room, room + 1, 90} - {-1, -2}:
        cut = encoder.encode([_long(n)], small_graph, long="cut").cut
        assert cut is not None
        n_lost = max(0, n + 2 - room)
        assert (cut.n_texts, cut.n_links) == (1, 2)
        assert (cut.n_cut, cut.n_pieces_lost) == (int(n_lost > 0), n_lost), n
        assert cut.n_links_lost == int(n_lost > 0), n


def test_an_encoder_that_reads_everything_says_nothing(
    host: Path, small_graph: KnowledgeGraph, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = AutoEncoder.from_host("kbert", host, small_graph)
    encoded = encoder.encode([_long(3), "", "old"], small_graph)
    assert encoded.cut is not None
    assert encoded.cut.n_cut == 0
    empty = encoder.encode([], small_graph).cut
    assert empty is not None
    assert empty.n_texts == 0
    assert "cut at" not in caplog.text
    assert "cut" not in repr(encoded)
    encoder.encode([_long(90)], small_graph, long="cut")
    assert "the host reads no longer ones: give parts of the texts" in caplog.text


def test_a_predictor_counts_and_offers_windows(
    host: Path, small_graph: KnowledgeGraph, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = load_tokenizer(host)
    torch.manual_seed(0)
    encoder = METHODS["none"].encoder.for_graph(load_host(host), small_graph, tokenizer, seed=0)
    model = KnowledgeForTask.of(encoder, "targets", ("a", "b"), n_targets=1)
    predictor = Predictor(model, tokenizer, task="typing", builder=BuilderConfig(max_words=20))
    short, long = question("the old is near", "old"), question("old is " + "the " * 40, "old")
    caplog.clear()  # what was said of the files of the host
    predictor.predict([short], small_graph)
    assert not caplog.records
    predictor.predict([short, long], small_graph)
    assert "1 of 2 texts cut at 20 word pieces" in caplog.text
    assert "give shorter texts, or windows of them" in caplog.text
    caplog.clear()
    predictor.explain(long, small_graph)
    assert caplog.text.count("text cut at") == 1
    caplog.clear()
    far = question("the " * 40 + "old", "old")  # read in a window around its mention
    (answer,) = predictor.predict([far], small_graph)
    (near,) = predictor.predict([question("the " * 17 + "old", "old")], small_graph)
    assert answer == near
    assert "1 of 1 text cut at 20 word pieces" in caplog.text


def test_rows_of_a_text_lose_what_is_in_none_of_them() -> None:
    """A question of two pieces too many, and a context that is in two windows."""
    spans = np.array([[-1, -1], *((i, i + 1) for i in range(0, 20, 2)), [-1, -1]], np.int32)
    whole = Words(np.arange(12, dtype=np.int32), spans)
    rows = [whole[np.array([0, 1, 5, 6, 7, 11])], whole[np.array([0, 1, 7, 8, 9, 10, 11])]]
    links = tuple(Link(Mention(at, at + 1), (), None, 1.0) for at in (0, 4, 8, 18))
    text = LinkedText("x " * 10, links)
    cut, lost = cut_of_rows([text, text], [whole, whole], [rows, [whole]], 7)
    assert (cut.n_texts, cut.n_cut, cut.n_pieces, cut.n_pieces_lost) == (2, 1, 20, 3)
    assert lost.tolist() == [False, True, False, False, False, False, False, False]
    assert cut_of_rows([], [], [], 7)[0].n_texts == 0


def test_a_probe_counts_questions_that_are_cut(
    tmp_path: Path, small_graph: KnowledgeGraph, tokenizer: object
) -> None:
    small_graph.save(tmp_path / "kg")
    encoder = method_encoder("kbert", small_graph, tokenizer)
    KnowledgeForPreTraining.of(encoder, {"mlm": {}}).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")  # type: ignore[attr-defined]
    settings = {"graph": {"max_words": 16, "max_nodes": 32}, "view": {}}
    (tmp_path / "model" / "pretrain.json").write_text(json.dumps(settings))
    (tmp_path / "t.tsv").write_text(f"P17\t{'the ' * 30}[X] is near [Y] .\nP36\t[X] [Y] .\n")
    done = CliRunner().invoke(
        app,
        ["probe", *map(str, [tmp_path / "model", "--kg", tmp_path / "kg", "--relations", "P17",
         "--templates", tmp_path / "t.tsv", "-o", tmp_path / "out"])],
        env={"COLUMNS": "160"},
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "texts cut at 16 word pieces" in done.output
    assert "the part around the hole was read" in done.output
    assert "was cut off with the text" not in done.output
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    mode = next(scores[name] for name in ("weights", "graph") if name in scores)
    cut = mode["settings"]["cut"]
    assert cut["n_cut"] == cut["n_texts"] > 0
