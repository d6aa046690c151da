"""`kept link`, as a user calls it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from entity_linking import read_jsonl
from kept.apps.cli import app
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport


@pytest.fixture(scope="module")
def kg(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("link") / "kg"
    small_graph.save(folder)
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["link", *map(str, arguments)], env={"COLUMNS": "160"})


def test_text_as_a_table(kg: Path) -> None:
    result = run("Paris isn't in the FRENCH REPUBLIC [b]", "--kg", kg, "--explain")
    assert result.exit_code == 0, result.output
    assert "2 links in 1 text" in result.output
    assert "alias 'French Republic'" in result.output
    assert "city in Texas" in result.output
    assert "no name of the graph" not in result.output


def test_what_to_do_where_nothing_is_linked_is_said(kg: Path) -> None:
    result = run("Nobody came.", "--kg", kg)
    assert "0 links in 1 text; confidence is by names alone, uncalibrated" in result.output
    assert "no name of the graph was found: --case insensitive" in result.output


def test_file_to_json_lines(kg: Path, tmp_path: Path) -> None:
    notes, out = tmp_path / "notes.txt", tmp_path / "out.jsonl"
    notes.write_bytes("In Bonn.\r\n\nnothing\nThe Seine — Berlin.\n".encode())
    result = run(notes, "--kg", kg, "-o", out)
    assert result.exit_code == 0, result.output
    assert "3 texts in" in result.output
    texts = list(read_jsonl(out, DamageReport()))
    assert [(text.id, [link.entity for link in text.links]) for text in texts] == [
        ("1", ["Q2"]), ("3", []), ("4", ["Q1471", "Q64"]),
    ]  # fmt: skip
    printed = run(notes, "--kg", kg, "--json")
    assert printed.stdout == out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.txt"], "no.txt is not a file"),
        (["Paris", "--case", "loud"], "case is 'loud'"),
    ],
)
def test_faults_are_one_line(kg: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments, "--kg", kg)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_what_is_no_file_is_not_linked_as_text(kg: Path, tmp_path: Path) -> None:
    """The path of a pipe, of a device and of a folder once was the text, with exit code 0."""
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "pipe", "is a pipe, but inputs are read more than once"),
        ("/dev/null", "is a device"), (tmp_path, "is not a file"),
        ("./no/such/place", "is not a file"),
    ):  # fmt: skip
        result = run(path, "--kg", kg)
        assert result.exit_code == 1, result.output
        assert message in " ".join(result.output.split())
    for text in ("Paris", "他/她住在北京"):
        assert run(text, "--kg", kg).exit_code == 0


def test_no_graph_names_the_remedy(tmp_path: Path) -> None:
    result = run("Paris", "--kg", tmp_path / "none")
    assert result.exit_code == 1
    assert "kept kg build" in result.output


RECORDS = '[{"text": "In Bonn.", "id": "x"},\n "Paris \\u2014 Berlin",\n {"text": "The Seine"}]\n'


@pytest.mark.parametrize("name", ["arr.json", "arr.JSON", "arr.json.gz"])
def test_a_json_array_is_its_records(kg: Path, tmp_path: Path, name: str) -> None:
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    data = RECORDS.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    result = run(path, "--kg", kg, "-o", out)
    assert result.exit_code == 0, result.output
    texts = list(read_jsonl(out, DamageReport()))
    assert [(text.id, text.text, [link.entity for link in text.links]) for text in texts] == [
        ("x", "In Bonn.", ["Q2"]),
        ("2", "Paris \u2014 Berlin", ["Q90", "Q64"]),
        ("3", "The Seine", ["Q1471"]),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("Paris\nBonn\n", "begins neither an array of texts nor an object; name it .jsonl"),
        ("", "begins neither an array"),
        ('[{"text": "a"}, {"title": "b"}]', "missing required field `text`"),
        ('{"title": "b"}', "missing required field `text`"),
        ('[{"text": "a", "text": "b"}]', "the key 'text' occurs twice in one object"),
    ],
)
def test_json_that_holds_no_texts_is_refused(
    kg: Path, tmp_path: Path, data: str, message: str
) -> None:
    path = tmp_path / "arr.json"
    path.write_text(data, encoding="utf-8")
    result = run(path, "--kg", kg)
    assert result.exit_code == 1
    assert message in result.output.replace("\n", "")
    assert "arr.json" in result.output.replace("\n", "")
