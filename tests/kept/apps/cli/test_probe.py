"""`kept probe` on a small graph: what it asks, says and writes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.errors import ConfigError
from kept.lab.probing.items.graph_items import UNLABELLED, graph_questions
from kept.lab.probing.items.templates import read_templates
from kept.lab.probing.results import read_answers
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.damage import DamageReport
from kg_loaders.errors import DamageError
from tests.kept.tiny_hosts import method_encoder
from tests.kept.tiny_lama import write_lama


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph, tokenizer: Any
) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    small_graph.save(folder / "kg")
    encoder = method_encoder("kbert", small_graph, tokenizer)
    KnowledgeForPreTraining.of(encoder, {"mlm": {}}).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    write_lama(folder / "lama")
    return folder


@pytest.fixture
def run(world: Path) -> Any:
    def invoke(*more: str, kg: bool = True) -> Any:
        graph = ("--kg", str(world / "kg")) if kg else ()
        arguments = ["probe", str(world / "model"), *graph, *more]
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "160"})

    return invoke


def test_both_modes_are_told_apart_and_written(run: Any, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("P17\t[X] is near [Y] .\n\nP17\tthe [X] of [Y] .\n")
    done = run(
        "--relations", "P17,P36", "--templates", str(tmp_path / "t.tsv"), "--mode", "both",
        "--max-items", "3", "-o", str(tmp_path / "out"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for words in (
        "8 questions about 5 of 6 facts of 2 relations",
        "the graph knows head, relation and tail of 8 of them",
        "P17: [X] is near [Y] . | the [X] of [Y] .",
        "P36: [X] capital [Y] . (default: the relation's label)",
        "tested triple in the graph | 5 | 5",
        "mode weights: no facts are shown",
        "mode graph: facts between subject and answer are hidden",
        "mean of 2 relations",
        "the answer has more than one piece",
        "majority: the most frequent object of a relation among the items",
    ):
        assert words in done.output, words
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    for mode in ("weights", "graph"):
        result = read_answers(tmp_path / "out" / f"answers-{mode}.jsonl")
        assert result.mode == mode
        assert len(result.answers) == 8
        assert len({answer.group for answer in result.answers}) == 5
        (whole,) = (row for row in scores[mode]["objects"]["rows"] if row["name"] == "all")
        assert (whole["n_asked"], whole["n_scored"]) == (8, 8)
        assert whole["interval"]["n"] == 5
        assert scores[mode]["n_asked_shown"] == 0
    again = run("--relations", "P17,P36", "--templates", str(tmp_path / "t.tsv"), "--mode", "both",
                "--max-items", "3", "-o", str(tmp_path / "again"))  # fmt: skip
    assert again.exit_code == 0
    assert (tmp_path / "again" / "scores.json").read_text() == (
        tmp_path / "out" / "scores.json"
    ).read_text()


def test_asked_facts_are_shown_on_request(run: Any, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("city\nriver\n")
    done = run("--mode", "graph", "--show-asked", "--vocabulary", str(tmp_path / "words.txt"))
    assert done.exit_code == 0, done.output
    assert "the model gets a fact between subject and answer in 15 of 15" in done.output
    assert "15 questions about 15 of 15 facts of 7 relations" in done.output


def test_a_collection_is_asked_without_a_graph_and_with_one(
    run: Any, world: Path, tmp_path: Path
) -> None:
    arguments = ("--collection", "trex", "--data", str(world / "lama"))
    done = run(*arguments, "--max-items", "1", kg=False)
    assert done.exit_code == 0, done.output
    assert "2 questions about 2 of 6 facts of 2 relations" in done.output
    assert "P37" in done.output
    assert "degree" not in done.output
    assert "in the graph" not in done.output
    done = run(*arguments, "--relations", "P17", "--mode", "graph", "-o", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "4 questions about 4 of 4 facts of 1 relation" in done.output
    assert "the graph knows head, relation and tail of 4 of them" in done.output
    assert "tested triple in the graph | 4 | " in done.output
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["collection"] == "trex"
    result = read_answers(tmp_path / "answers-graph.jsonl")
    objects = [answer.objects for answer in result.answers]
    assert [one.n_candidates for one in objects if one] == [2] * 4


def test_edits_are_told(run: Any, tmp_path: Path) -> None:
    done = run("--relations", "P17,P36", "--mode", "graph", "--edits", "2", "-o", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "2 of 2 edits, each alone" in done.output
    assert "| edited | 2 | 2 | 2 |" in done.output
    rows = json.loads((tmp_path / "scores.json").read_text())["edits"]
    (edited,) = (row for row in rows if row["scope"] == "edited")
    assert edited["score_change"] != 0


def test_edits_that_cannot_be_are_known_before_a_model_is_asked(
    run: Any, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triples = [Triple("paris", "in", "france"), Triple("lyon", "in", "france")]
    labels = [Text(n, TextKind.LABEL, n.title(), "en") for n in ("paris", "lyon", "france")]
    graph_from_records([*triples, *labels]).save(tmp_path / "one")
    monkeypatch.setattr("kept.apps.cli.probe_run.probe", lambda *_, **__: pytest.fail("was asked"))
    edits = ("--mode", "both", "--edits", "2", "-o", str(tmp_path / "out"))
    done = run("--kg", str(tmp_path / "one"), *edits, kg=False)
    assert done.exit_code == 1
    assert "choose relations with several objects" in done.output.replace("\n", " ")


def test_faults_are_explained(run: Any, world: Path, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "t.tsv").touch()
    lama = ("--data", str(world / "lama"), "--collection")
    for more, message in (
        (["--mode", "all"], "mode 'all'"),
        (["--show-asked"], "--mode graph"),
        (["--relations", "P999"], "no relation P999"),
        (["--vocabulary", str(tmp_path / "none.txt")], "has no word"),
        (["--edits", "1"], "--mode graph"),
        (["--collection", "trex"], "give both"),
        ([*lama, "trex", "--templates", str(tmp_path / "t.tsv")], "a collection has its"),
        ([*lama, "nothing"], "there is no collection"),
        ([*lama, "squad", "--mode", "graph"], "needs questions about facts of the graph"),
    ):
        done = run(*more)
        assert done.exit_code == 1
        assert message in done.output.replace("\n", " "), (more, done.output)
    done = run(kg=False)
    assert done.exit_code == 1
    assert "nothing to ask" in done.output


def test_templates_of_both_formats(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"relation": "P1", "template": "[X] in [Y]"}\n')
    assert [one.text for one in read_templates(path, DamageReport())["P1"]] == ["[X] in [Y]"]
    for line in ("P1 [X] in [Y]", "P1\t[X] in", "P1\t[X] in [Y] or [Y]"):
        (tmp_path / "t.tsv").write_text(f"\n{line}\n")
        with pytest.raises(DamageError, match=r"t\.tsv, line 2"):
            read_templates(tmp_path / "t.tsv", DamageReport())


def test_unlabelled_ends_and_further_tails() -> None:
    triples = [Triple("a", "r", "b"), Triple("a", "r", "c"), Triple("a", "r", "d")]
    labels = [Text(name, TextKind.LABEL, name.upper(), "en") for name in "abc"]
    graph = graph_from_records([*triples, *labels])
    questions = graph_questions(graph, ["r"], {}, max_items=None, seed=0)
    assert [(one.answer, one.also_right) for one in questions.items] == [
        ("B", ("C",)),
        ("C", ("B",)),
    ]
    assert questions.items[0].linked.text == "A r [Y] ."
    assert questions.objects == {"r": ["B", "C"]}
    assert questions.left_out == {UNLABELLED: 1}
    sample = graph_questions(graph, ["r"], {}, max_items=1, seed=0)
    assert len(sample.items) == 1
    assert sample.objects == questions.objects
    assert sample.items[0].also_right
    without_labels = graph_from_records([Triple("a", "r", "b")])
    with pytest.raises(ConfigError, match="add labels"):
        graph_questions(without_labels, ["r"], {}, max_items=None, seed=0)
    with pytest.raises(ConfigError, match="none of the graph's 1 triples has a label at both ends"):
        graph_questions(without_labels, None, {}, max_items=None, seed=0)


def test_relations_without_labels_are_counted_where_all_are_asked() -> None:
    triples = [Triple("a", "r", "b"), Triple("a", "s", "c"), Triple("c", "s", "c")]
    labels = [Text(name, TextKind.LABEL, name.upper(), "en") for name in "ab"]
    graph = graph_from_records([*triples, *labels])
    questions = graph_questions(graph, None, {}, max_items=None, seed=0)
    assert list(questions.objects) == ["r"]
    assert (questions.n_drawn_from, questions.left_out) == (1, {UNLABELLED: 2})


def test_a_label_may_be_the_identifier() -> None:
    labels = [Text(name, TextKind.LABEL, name, "en") for name in ("Paris", "France")]
    graph = graph_from_records([Triple("Paris", "in", "France"), *labels])
    (item,) = graph_questions(graph, None, {}, max_items=None, seed=0).items
    assert (item.subject, item.answer) == ("Paris", "France")


def test_a_probe_no_better_than_the_majority_says_so() -> None:
    from kept.apps.cli.probe_run import shortfall
    from kept.lab.probing.tables import ALL, ProbeRow

    def rows(p_at_1: float | None, majority: float | None) -> list[ProbeRow]:
        row = ProbeRow(ALL, 9, 9, p_at_1, None, 1.0, 1.0, 0.0, majority)
        return [dataclasses.replace(row, name="P17"), row]

    line = shortfall(rows(0.2, 0.3), "weights")
    assert line is not None
    assert "P@1 0.200 is no better than always the relation's most frequent object (0.300)" in line
    assert "--templates FILE" in line
    assert "--show-asked" in (shortfall(rows(0.3, 0.3), "graph") or "")
    warning = shortfall(rows(0.3, 0.3), "graph", shows_answers=True) or ""
    assert "--show-asked" not in warning, "it was given"
    assert "kept pretrain" in warning
    for fine in (rows(0.4, 0.3), rows(None, 0.3), rows(0.1, None)):
        assert shortfall(fine, "weights") is None
