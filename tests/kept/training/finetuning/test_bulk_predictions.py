"""Predictions for files of texts: every kind of task and form of file, faulty lines, resuming."""

from __future__ import annotations

import csv
import dataclasses
import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entity_linking.errors import LinkingError
from kept.errors import ConfigError
from kept.tasks.datasets.example import question
from kept.tasks.datasets.formats import TASKS
from kept.tasks.datasets.unlabelled import UnlabelledLine, read_unlabelled
from kept.tasks.kinds import CHOICE, MULTI, REGRESSION, SPAN
from kept.training.finetuning.bulk import LINES_PER_BLOCK, BulkPrediction, write_predictions
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import DamageError
from tests.kept.tiny_predictors import CLASSES, tiny_predictor

TEXT = "the old city of Paris near Berlin"
ROWS: dict[str, dict[str, Any]] = {
    "classification": {"text": TEXT},
    "regression": {"text": TEXT},
    "mention": {"text": TEXT, "mention": "Paris"},
    "typing": {"text": TEXT, "start": 16, "end": 21},
    "relation": {"text": TEXT, "head": "Paris", "tail": "Berlin"},
    "document_relations": {"text": TEXT, "head": "Paris", "tail": "Berlin"},
    "tagging": {"tokens": "the old city of Paris"},
    "span": {"question": "which city", "context": TEXT},
    "span_or_none": {"question": "which city", "context": TEXT},
    "multiple_choice": {"question": TEXT, "choices": "a river|a city"},
}
"""A row of each task, as a table has it."""


def bulk_of(predictor: Predictor, graph: KnowledgeGraph, path: Path, policy: str) -> BulkPrediction:
    report = DamageReport(policy=DamagePolicy(policy))
    return BulkPrediction(predictor, graph, predictor.linker(graph), str(path), report)


def predicted(bulk: BulkPrediction, path: Path) -> list[dict[str, Any]]:
    lines = read_unlabelled(path, bulk.predictor.task, bulk.report)
    return [row for block in bulk.blocks(lines) for row in block]


def test_every_task_has_a_form() -> None:
    assert TASKS.keys() == ROWS.keys()


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_predicted_from_every_form_of_file(
    task: str, small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    predictor = tiny_predictor(task, small_graph, tokenizer)
    row = ROWS[task]
    files = {"a.csv": ",", "b.tsv": "\t", "c.txt": "\t"}
    if len(row) == 1:
        del files["c.txt"]  # one column without a tab: plain lines
        (tmp_path / "e.txt").write_text(" ".join(map(str, row.values())) + "\n", encoding="utf-8")
    for name, between in files.items():
        lines = [between.join(row), between.join(str(value) for value in row.values())]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "d.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    rows = {}
    for path in sorted(tmp_path.iterdir()):
        bulk = bulk_of(predictor, small_graph, path, "stop")
        (rows[path.name],) = predicted(bulk, path)
        assert rows[path.name].pop("line") == (1 if path.suffix == ".jsonl" or path.name == "e.txt"
                                               else 2)  # fmt: skip
        rows[path.name].pop("id")
    first = rows["a.csv"]
    assert len(rows) >= 4
    assert all(each == first for each in rows.values()), rows
    kind = TASKS[task].problem_type
    if kind == REGRESSION:
        assert (type(first["prediction"]), first["confidence"]) == (float, None)
    elif kind == MULTI:
        assert set(first["prediction"]) <= set(CLASSES)
        assert all(share > 0.5 for share in first["confidence"])
    elif task == "tagging":
        assert len(first["prediction"]) == len(first["confidence"]) == 5
    elif kind == CHOICE:
        assert first["prediction"] == first["choices"][first["choice"] - 1]
        assert 0.5 <= first["confidence"] <= 1
    elif kind == SPAN:
        assert first["prediction"] in TEXT
        assert 0 < first["confidence"] <= 1
    else:
        assert first["prediction"] in CLASSES
        assert 1 / 3 <= first["confidence"] <= 1


def test_confidence_is_the_score_of_the_answer(small_graph: KnowledgeGraph, tokenizer: Any) -> None:
    predictor = tiny_predictor("mention", small_graph, tokenizer)
    example = question(TEXT, "Paris")
    explanation = predictor.explain(example, small_graph)
    (prediction,) = predictor.predictions([example], small_graph)
    assert prediction.labels == (explanation.label,)
    assert prediction.confidence[0] == pytest.approx(explanation.scores[explanation.label])


def test_links_of_a_file_are_kept(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    """A text that is linked already is read with these links, and no linker is asked."""

    class Refusing:
        def link(self, texts: Any) -> Any:
            assert not texts
            return []

    path = tmp_path / "linked.jsonl"
    mention = {"start": 16, "end": 21, "entity": "Q64"}
    path.write_text(json.dumps({"text": TEXT, "mentions": [mention]}) + "\n", encoding="utf-8")
    predictor = tiny_predictor("classification", small_graph, tokenizer)
    bulk = dataclasses.replace(bulk_of(predictor, small_graph, path, "stop"), linker=Refusing())
    assert len(predicted(bulk, path)) == 1


def test_facts_between_the_ends_of_a_relation_are_not_shown(
    small_graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """Training hides them, whoever links the text: so does the prediction."""
    predictor = tiny_predictor("relation", small_graph, tokenizer)
    linker = predictor.linker(small_graph)
    head, _, tail = small_graph.triples[0].tolist()
    names = [small_graph.label(head), small_graph.label(tail)]
    example = question(f"{names[0]} near {names[1]}", *names)
    (read,) = predictor._examples([example], small_graph, linker)
    assert read.pair == (small_graph.entities.name(head), small_graph.entities.name(tail))


# ---- faulty lines --------------------------------------------------------------------------------
def test_faulty_lines_are_named_and_the_others_predicted(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    rows: list[Any] = [
        {"text": TEXT, "mention": "Paris"},
        {"text": TEXT, "mention": "Rome"},
        {"text": "old " * 60 + "Paris", "mention": "Paris"},  # read in a window around it
        {"text": "\ud800 Paris", "mention": "Paris"},
        {"text": TEXT, "targets": 5},
        {"text": TEXT, "mention": "Berlin"},
    ]
    lines = [json.dumps(row) for row in rows] + ["{", "[1]"]
    path.write_text("\n".join(lines), encoding="utf-8")
    predictor = tiny_predictor("typing", small_graph, tokenizer)
    bulk = bulk_of(predictor, small_graph, path, "skip")
    assert [row["line"] for row in predicted(bulk, path)] == [1, 3, 6]
    reasons = {each.line: each.reason for each in bulk.report.rejections}
    assert sorted(reasons) == [2, 4, 5, 7, 8]
    assert "'Rome' does not occur" in reasons[2]
    with pytest.raises(DamageError, match=r"a\.jsonl, line 2 .*'Rome' does not occur"):
        predicted(bulk_of(predictor, small_graph, path, "stop"), path)


@pytest.mark.parametrize(
    ("name", "content", "task", "message"),
    [
        ("a.csv", "satz\nx\n", "classification", "--column USE=NAME"),
        ("a.csv", "text,head\nx,x\n", "relation", "text, head and tail; or text and targets"),
        ("a.txt", "plain words\n", "mention", "plain lines"),
        ("a.json", "[]", "classification", r"write one object a line \(.jsonl\)"),
        ("a.csv", 'text\n"x\n', "classification", "a cell with quotes is quoted"),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(
    name: str, content: str, task: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        list(read_unlabelled(path, task, DamageReport()))


# ---- streams -------------------------------------------------------------------------------------
def test_first_lines_are_predicted_before_the_last_are_read(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    predictor = tiny_predictor("classification", small_graph, tokenizer)
    path = tmp_path / "a.txt"
    path.write_text(f"{TEXT}\n" * 200, encoding="utf-8")
    bulk = bulk_of(predictor, small_graph, path, "stop")
    n_read = 0

    def counted() -> Iterator[UnlabelledLine]:
        nonlocal n_read
        for line in read_unlabelled(path, "classification", bulk.report):
            n_read += 1
            yield line

    first = next(bulk.blocks(counted()))
    assert [row["line"] for row in first] == list(range(1, LINES_PER_BLOCK + 1))
    assert n_read == LINES_PER_BLOCK


def test_memory_does_not_grow_with_the_lines(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    predictor = tiny_predictor("classification", small_graph, tokenizer)
    bulk = bulk_of(predictor, small_graph, tmp_path / "a.txt", "stop")
    peaks, held = [], []
    for n_lines in (96, 96, 960):  # the first warms what is kept
        lines = (
            UnlabelledLine(i, question(f"{TEXT} {i}"), {"text": f"{TEXT} {i}"})
            for i in range(n_lines)
        )
        tracemalloc.start()
        output = tmp_path / "a.jsonl"
        assert write_predictions(bulk, lines, output, key="x", force=True) == n_lines
        peaks.append(tracemalloc.get_traced_memory()[1])
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert held[2] < held[1] + 50_000, held
    # graphs of a text, some 5 kB, may wait for the collector, but not those of 864 texts
    assert peaks[2] < 2 * peaks[1], peaks


class Stopping(BulkPrediction):
    """Stops after its first block, as a person does with Ctrl-C."""

    def blocks(self, lines: Any) -> Any:
        for number, block in enumerate(super().blocks(lines)):
            if number:
                raise KeyboardInterrupt
            yield block


def test_a_run_that_was_stopped_is_resumed(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    predictor = tiny_predictor("typing", small_graph, tokenizer)
    path, whole, part = tmp_path / "a.csv", tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    rows = ["text,mention"] + [f"{TEXT} {i},Paris" for i in range(90)]
    rows[5] = "nothing,Paris"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")

    def write(output: Path, kind: type[BulkPrediction] = BulkPrediction, **options: Any) -> int:
        bulk = bulk_of(predictor, small_graph, path, "skip")
        bulk = kind(*(getattr(bulk, f.name) for f in dataclasses.fields(BulkPrediction)))
        lines = read_unlabelled(path, "typing", bulk.report)
        return write_predictions(bulk, lines, output, **{"key": "one", **options})

    assert write(whole) == 89
    with pytest.raises(KeyboardInterrupt):
        write(part, Stopping)
    assert not part.exists()
    with pytest.raises(LinkingError, match="go on with --resume"):
        write(part)
    with pytest.raises(LinkingError, match="another graph or other settings"):
        write(part, resume=True, key="two")
    assert write(part, resume=True) == 89
    assert part.read_bytes() == whole.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write(part, Stopping, force=True)
    path.write_text(path.read_text(encoding="utf-8").replace(" 7,", " 8,"), encoding="utf-8")
    with pytest.raises(LinkingError, match="which is not text"):
        write(part, resume=True)


def test_a_table_is_written_whole(
    small_graph: KnowledgeGraph, tokenizer: Any, tmp_path: Path
) -> None:
    predictor = tiny_predictor("typing", small_graph, tokenizer)
    path, output = tmp_path / "a.jsonl", tmp_path / "a.csv"
    rows = [{"id": f"x{i}", "text": f"=1+1, {TEXT}", "mention": "Paris"} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def write(kind: type[BulkPrediction] = BulkPrediction, **options: Any) -> int:
        bulk = bulk_of(predictor, small_graph, path, "stop")
        bulk = kind(*(getattr(bulk, f.name) for f in dataclasses.fields(BulkPrediction)))
        lines = read_unlabelled(path, "typing", bulk.report)
        return write_predictions(bulk, lines, output, key="", **options)

    with pytest.raises(KeyboardInterrupt):
        write(Stopping)
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]
    with pytest.raises(ConfigError, match="cannot be resumed"):
        write(resume=True)
    assert write() == 40
    with output.open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert list(table[0]) == ["line", "id", "text", "mention", "start", "end", "prediction",
                              "confidence"]  # fmt: skip
    assert [each["id"] for each in table] == [row["id"] for row in rows]
    assert table[0]["text"].startswith("'=1+1")  # no cell is run as a formula
    bulk = bulk_of(predictor, small_graph, path, "stop")
    labels = [row["prediction"] for row in predicted(bulk, path)]
    assert [each["prediction"] for each in table] == ["|".join(each) for each in labels]
