"""`kept predict RUN FILE` and `kept.predict(run, file)`: the file, its lines, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import kept
from entity_linking import RelationExample
from kept.apps.cli import app
from kept.errors import ConfigError


@pytest.fixture(scope="module")
def texts(finetuned: Path, examples: list[RelationExample]) -> Path:
    path = finetuned / "texts.csv"
    rows = "".join(f"{i},{example.linked.text}\n" for i, example in enumerate(examples[:70]))
    path.write_text(f"id,text\n{rows}", encoding="utf-8")
    return path


def run_line(folder: Path, source: Path | str, *options: str) -> Result:
    arguments = ["predict", str(folder / "run"), str(source), "--kg", str(folder / "kg")]
    return CliRunner().invoke(app, [*arguments, *options])


def test_each_line_has_the_answer_of_its_text(finetuned: Path, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    done = run_line(finetuned, texts, "-o", str(output))
    assert done.exit_code == 0, done.output
    assert f"70 predictions in {output}" in done.output
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(row["line"], row["id"]) for row in rows] == [(i + 2, str(i)) for i in range(70)]
    for row in (rows[0], rows[40], rows[69]):
        alone = run_line(finetuned, row["text"])
        assert alone.output.strip() == row["prediction"]
        assert 0 < row["confidence"] <= 1
    again = run_line(finetuned, texts, "-o", str(output))
    assert (again.exit_code, "--force" in again.output) == (1, True)


def test_without_a_file_to_write_lines_are_printed(finetuned: Path, texts: Path) -> None:
    done = run_line(finetuned, texts)
    assert done.exit_code == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["line"] for row in rows] == list(range(2, 72))


def test_python_writes_and_returns_the_same(finetuned: Path, texts: Path, tmp_path: Path) -> None:
    arguments: Any = {"kg": finetuned / "kg"}
    rows = kept.predict(finetuned / "run", texts, **arguments)
    assert len(rows.to_pandas()) == 70
    result = kept.predict(finetuned / "run", texts, output=tmp_path / "a.jsonl", **arguments)
    assert result["n_predictions"] == 70
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == list(rows.rows)
    renamed = tmp_path / "b.csv"
    renamed.write_text("satz\nthe river\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="lacks columns"):
        kept.predict(finetuned / "run", renamed, **arguments)
    named = kept.predict(finetuned / "run", renamed, column={"text": "satz"}, **arguments)
    assert named.rows[0]["text"] == "the river"


def test_faulty_lines_are_named(finetuned: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,id\nthe river,1\n,2\nthe city,3\nx\n", encoding="utf-8")
    done = run_line(finetuned, path, "-o", str(tmp_path / "a.jsonl"))
    assert done.exit_code == 1
    assert "line 3" in done.output
    assert "no text" in done.output
    assert "--damage skip" in done.output
    done = run_line(finetuned, path, "-o", str(tmp_path / "b.jsonl"), "--damage", "skip")
    assert done.exit_code == 0
    assert "2 predictions" in done.output
    assert "line 3" in done.stderr
    assert "line 5" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--explain",), "--explain is for a single text"),
        (("--target", "x"), "--target is for a single text"),
        (("--damage", "quarantine"), "choose stop or skip"),
        (("--resume",), "name it with -o"),
        (("--column", "text"), "write USE=NAME"),
        (("--column", "texts=a"), "did you mean text"),
        (("--column", "text=satz"), "has no column 'satz'"),
        (("-o", "{texts}", "--force"), "is the input"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: tuple[str, ...], message: str, finetuned: Path, texts: Path
) -> None:
    before = texts.read_bytes()
    done = run_line(finetuned, texts, *(each.format(texts=texts) for each in options))
    assert (done.exit_code, message in done.output.replace("\n", " ")) == (1, True), done.output
    assert texts.read_bytes() == before


def test_a_text_takes_no_options_of_a_file(finetuned: Path, tmp_path: Path) -> None:
    done = run_line(finetuned, "the river", "-o", str(tmp_path / "a.jsonl"))
    assert (done.exit_code, "'the river' is not a file" in done.output) == (1, True)
    done = run_line(finetuned, "missing.csv")
    assert (done.exit_code, "'missing.csv' is not a file" in done.output) == (1, True)
