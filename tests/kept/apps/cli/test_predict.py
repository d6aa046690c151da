"""`kept predict` asks a run of `kept finetune` about a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from entity_linking import RelationExample
from kept.apps.cli import app
from kg_loaders import KnowledgeGraph


@pytest.fixture(scope="module")
def run(finetuned: Path) -> Path:
    """A run of one step on texts with a label each, beside its graph."""
    return finetuned


def _predict(run: Path, *arguments: str, kg: str = "kg") -> str:
    command = ["predict", str(run / "run"), *arguments, "--kg", str(run / kg)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_answer_and_what_made_it(
    run: Path, examples: list[RelationExample], world: KnowledgeGraph
) -> None:
    text = examples[50].linked.text
    relations = {example.relation for example in examples}
    answer = _predict(run, text).strip()
    assert answer in relations
    assert json.loads(_predict(run, text, "--json")) == {"text": text, "labels": [answer]}
    prediction = json.loads(_predict(run, text, "--explain", "--json"))
    assert (prediction["label"], prediction["text"]) == (answer, text)
    kinds = [one["kind"] for one in prediction["influences"]]
    assert set(kinds) == {"fact", "link"}
    head, relation, tail = world.triples[
        next(one["row"] for one in prediction["influences"] if one["kind"] == "fact")
    ].tolist()
    fact = f"{world.label(head)} — {world.relation_label(relation)} → {world.label(tail)}"
    assert f"without fact {fact}: {answer}" in _predict(run, text, "--explain")


def test_without_entities_there_is_no_influence(
    run: Path, examples: list[RelationExample], caplog: pytest.LogCaptureFixture
) -> None:
    _predict(run, examples[50].linked.text)
    assert "shown nothing" not in caplog.text
    _predict(run, "the old river")
    assert "shown nothing of KnowledgeGraph(" in caplog.text
    assert "the model got nothing of the graph" in _predict(run, "the old river", "--explain")


def test_an_answer_is_chosen(
    run: Path, examples: list[RelationExample], host: Path, tmp_path: Path
) -> None:
    rows = [
        {"question": example.linked.text, "options": "A. old\nB. river\nC. city", "answer": "B"}
        for example in examples[:30]
    ]
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = [
        "finetune", "--task", "multiple-choice", "--format", "lettered", "--link",
        "--method", "ktnet", "--train", str(file), "--kg", str(run / "kg"), "--host", str(host),
        "--steps", "2", "--batch-size", "4", "-o", str(tmp_path / "run"), "--device", "cpu",
        "--set", "training.unfreezing.order=two-stage", "--set", "training.unfreezing.every=1",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "run/metrics.json").read_text(encoding="utf-8"))
    assert metrics["dev"]["official"]["name"] == "accuracy"
    assert metrics["dev"]["n_scored"] > 0
    command = ["predict", str(tmp_path / "run"), rows[0]["question"], "--kg", str(run / "kg")]
    chosen = CliRunner().invoke(app, [*command, "--choice", "old", "--choice", "the river"])
    assert chosen.exit_code == 0, chosen.output
    assert chosen.output.strip() in ("old", "the river")
    without_choices = CliRunner().invoke(app, command)
    assert without_choices.exit_code == 1
    assert "is not a pair" in without_choices.output


def test_faults(run: Path) -> None:
    command = ["predict", str(run / "run"), "a text", "--kg", str(run / "kg")]
    done = CliRunner().invoke(app, [*command, "--choice", "x", "--choice", "y"])
    assert done.exit_code == 1
    assert "--choice goes with a run of multiple_choice, not classification" in done.output
    done = CliRunner().invoke(app, [*command, "--about", "x"])
    assert (done.exit_code, "give both" in done.output) == (1, True)
    done = CliRunner().invoke(app, [*command, "--target", "text"])
    assert (done.exit_code, "needs 0 mention(s)" in done.output) == (1, True)
    done = CliRunner().invoke(app, ["predict", str(run), "a text", "--kg", str(run / "kg")])
    assert (done.exit_code, "has no finetune.json" in done.output.replace("\n", "")) == (1, True)
