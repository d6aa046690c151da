"""`kept predict` of a folder of `kept fit` on questions, for a file of questions."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import kept
from kept.apps.cli import app
from kept.errors import CheckpointError
from kept.lab.questions.fitted import AnswerSettings, read_settings, write_settings
from kept.model_files import seal_model

pytest.importorskip("ctranslate2", reason="the extra ask is not installed")

ROWS = [
    ("Brada Okoral", "role", "welder"), ("Brada Okoral", "lives in", "Orlbach"),
    ("Brada Okoral", "manager", "Kelsel Tessan"), ("Kelsel Tessan", "role", "auditor"),
    ("Kelsel Tessan", "lives in", "Tanwick"), ("Brada Okoral", "instance of", "person"),
    ("Kelsel Tessan", "instance of", "person"),
]  # fmt: skip
QUESTIONS = [
    "What is the role of Brada Okoral?", "Where does Kelsel Tessan live?",
    "Who is the manager of Kelsel Tessan?", "What is the capital of Atlantis?",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, and what `kept fit` writes where the values of the graph answer best."""
    folder = tmp_path_factory.mktemp("questions")
    kept.KnowledgeGraph.from_triples(ROWS).save(folder / "kg")
    (folder / "run").mkdir()
    write_settings(AnswerSettings(way="values", kg=str(folder / "kg")), folder / "run")
    return folder


def run_line(folder: Path, source: Path, *options: str) -> Result:
    arguments = ["predict", str(folder / "run"), str(source), "--kg", str(folder / "kg")]
    return CliRunner().invoke(app, [*arguments, *options])


def test_each_question_has_its_answer(folder: Path, tmp_path: Path) -> None:
    path, output = tmp_path / "questions.csv", tmp_path / "out.jsonl"
    texts = QUESTIONS * 5
    path.write_text("question\n" + "".join(f"{each}\n" for each in texts), encoding="utf-8")
    done = run_line(folder, path, "-o", str(output))
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["question"] for row in rows] == texts
    assert [row["line"] for row in rows] == list(range(2, 22))
    assert [row["prediction"] for row in rows[:4]] == [["welder"], ["Tanwick"], [], []]
    assert "no manager of Kelsel Tessan" in rows[2]["refusal"]
    assert rows[0]["confidence"] > 0.6
    for row in rows[:4]:
        alone = kept.predict(folder / "run", row["question"], kg=folder / "kg")
        assert (list(alone.values), alone.refusal) == (row["prediction"], row["refusal"])


def test_plain_lines_and_tables(folder: Path, tmp_path: Path) -> None:
    path, output = tmp_path / "questions.txt", tmp_path / "out.csv"
    path.write_text("\n".join(QUESTIONS), encoding="utf-8")
    assert run_line(folder, path, "-o", str(output)).exit_code == 0
    with output.open(encoding="utf-8", newline="") as stream:
        assert [row["prediction"] for row in csv.DictReader(stream)] == [
            "welder",
            "Tanwick",
            "",
            "",
        ]
    done = run_line(folder, path, "--case", "smart")
    assert (done.exit_code, "answers questions" in done.output) == (1, True)


def test_settings_that_were_altered_are_refused(folder: Path, tmp_path: Path) -> None:
    """Folders of `kept fit` have checksums; one of an earlier version has none and opens."""
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    assert read_settings(run).way == "values"
    seal_model(run)
    assert read_settings(run).max_facts == 8
    path = run / "questions.json"
    path.write_text(path.read_text().replace('"max_facts": 8', '"max_facts": 9'))
    with pytest.raises(CheckpointError, match=r"questions\.json was altered"):
        kept.predict(run, QUESTIONS[0], kg=folder / "kg")
