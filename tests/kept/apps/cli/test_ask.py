"""`kept ask` on a small graph with a tiny decoder: what it says, and when it says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.ask import _backend
from kept.decoders import llama_cpp
from kept.errors import MissingExtraError
from kg_loaders import Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_chat import WordVectors, chat_tokenizer
from tests.kept.tiny_decoders import tiny_decoder

QUESTION = "where is Paris"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ask")
    names = {"paris": "Paris", "france": "France", "seine": "Seine", "mars": "Mars"}
    triples = [Triple("paris", "country", "france"), Triple("paris", "river", "seine")]
    labels = [Text(name, TextKind.LABEL, label) for name, label in names.items()]
    relations = [Text(n, TextKind.LABEL, n, is_relation=True) for n in ("country", "river")]
    graph_from_records([*triples, *labels, *relations]).save(folder / "kg")
    words = "Question : where is Paris , country : France . river Seine Answer Mars"
    tokenizer = chat_tokenizer([words, "Paris country river It is"])
    host = tiny_decoder("llama", vocab_size=len(tokenizer), max_position_embeddings=128)
    with torch.no_grad():
        host.lm_head.weight[tokenizer.eos_token_id] = 0
    host.save_pretrained(folder / "decoder")
    tokenizer.save_pretrained(folder / "decoder")
    return folder


@pytest.fixture
def run(world: Path) -> Any:
    def invoke(question: str, *more: str) -> Any:
        line = ["ask", question, "--kg", str(world / "kg"), "--decoder", str(world / "decoder")]
        return CliRunner().invoke(app, [*line, "--order", "file", "--new", "3", *more])

    return invoke


@pytest.mark.parametrize("facts_as", ["words", "branches", "nodes"])
def test_the_answer_its_facts_and_what_each_changed(run: Any, facts_as: str) -> None:
    done = run(QUESTION, "--as", facts_as)
    assert done.exit_code == 0, done.output
    first, backend, *facts, without, chosen = done.stdout.partition("\n  Paris —")[0].splitlines()
    assert chosen.startswith("chosen from the graph: ")
    assert "probability of a word piece 0." in first
    assert backend.startswith("  written by ")
    assert backend.endswith("decoder, run by torch")
    assert {line.split("without ")[1].split(":")[0] for line in facts} == {
        "Paris — country → France", "Paris — river → Seine"
    }  # fmt: skip
    assert "without any fact" in without
    reply = json.loads(run(QUESTION, "--as", facts_as, "--json").stdout)
    assert first.startswith(reply["answer"])
    for line, fact in zip(facts, reply["facts"], strict=True):
        assert line.split()[0] == f"{fact['change']:+.2f}"
    assert reply["left_out"] == 0
    warns = "from the decoder itself" in done.stderr
    assert warns == (reply["facts"][0]["change"] < 0.1)


def test_what_is_not_shown_is_counted_and_an_answer_may_be_begun(run: Any) -> None:
    done = run(QUESTION, "--max-facts", "1", "--begin", " It is")
    assert done.exit_code == 0, done.output
    assert "1 more facts of Paris not shown" in done.stdout
    reply_ = json.loads(run(QUESTION, "--json", "--max-facts", "1").stdout)
    continued = json.loads(run(QUESTION, "--json", "--max-facts", "1", "--begin", " It is").stdout)
    assert continued["n_nodes"] == reply_["n_nodes"] + 2


@pytest.mark.parametrize(
    ("question", "reason"),
    [("where is Rome", "no entity of the graph"), ("where is Mars", "no fact of Mars")],
)
def test_without_a_fact_there_is_no_answer(run: Any, question: str, reason: str) -> None:
    done = run(question)
    assert done.exit_code == 0
    assert done.stdout.startswith("no answer: ")
    assert reason in done.stdout
    reply = json.loads(run(question, "--json").stdout)
    assert reply["answer"] is None
    assert reason in reply["refusal"]


def test_facts_like_the_question_come_first(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kept.decoders.answering.encoder.answer_encoder", lambda n_threads: WordVectors()
    )
    done = run(
        "river? river? river? Paris", "--max-facts", "1", "--order", "alike", "--threads", "1"
    )
    assert done.exit_code == 0, done.output
    assert "Paris — river → Seine" in done.stdout
    assert "country" not in done.stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--as", "table"], "one of words, branches, nodes"),
        (["--directions", "tail"], "'head' or 'both'"),
        (["--order", "best"], "one of alike, file"),
        (["--new", "127"], "leave no room for a question"),
        (["--decoder-backend", "onnx"], "choose one of auto, torch, llama.cpp"),
        (["--decoder-backend", "llama.cpp"], "llama.cpp runs the decoder smollm2 with facts as"),
    ],
)
def test_faults_are_explained(run: Any, more: list[str], message: str) -> None:
    done = run(QUESTION, *more)
    assert done.exit_code == 1, done.output
    assert message in done.output.replace("\n", " ")


def test_the_backend_is_told_and_one_that_is_missing_is_named(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(run(QUESTION, "--json").stdout)["backend"] == "torch"
    monkeypatch.setattr(llama_cpp, "is_available", lambda: False)
    assert _backend("auto", "smollm2", "words") == "torch"
    with pytest.raises(MissingExtraError, match=r"kept\[llamacpp\]"):
        _backend("llama.cpp", "smollm2", "words")
    monkeypatch.setattr(llama_cpp, "is_available", lambda: True)
    assert _backend("auto", "smollm2", "words") == "llama.cpp"
    assert _backend("auto", "smollm2", "nodes") == "torch"
    assert _backend("torch", "smollm2", "words") == "torch"
