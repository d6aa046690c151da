"""`kept link` over files: formats, workers, what a stopped run leaves, graphs from a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from entity_linking import read_jsonl
from kept.apps.cli import app
from kept.linking.linkers import LinkerSettings, open_graph
from kept.linking.stream import Work
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

link_command: Any = import_module(
    "kept.apps.cli.link.run"
)  # `kept.apps.cli.link` is also a function
LINES = [f"The Seine meets Paris {number}, in the French Republic." for number in range(600)]


@pytest.fixture(scope="module")
def kg(small_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "kg"
    small_graph.save(folder)
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["link", *map(str, arguments)], env={"COLUMNS": "200"})


def entities(path: Path) -> list[tuple[str, list[str | None]]]:
    texts = read_jsonl(path, DamageReport())
    return [(text.id, [link.entity for link in text.links]) for text in texts]


def test_help_shows_all_and_loads_no_torch() -> None:
    code = (
        "import sys; from kept.apps.cli import app; "
        "app(['link', '--help'], standalone_mode=False); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for word in ("text", "--kg", "--explain", "--resume", "--workers"):
        assert word in done.stdout


def test_the_default_command_may_be_named(kg: Path) -> None:
    named, unnamed = run("text", "In Bonn.", "--kg", kg), run("In Bonn.", "--kg", kg)
    options_first = run("--kg", kg, "In Bonn.")
    assert named.exit_code == 0, named.output
    assert named.output == unnamed.output == options_first.output


def test_any_number_of_workers_writes_the_same(kg: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("\n".join(LINES), encoding="utf-8")
    for n_workers in ("1", "2"):
        result = run(notes, "--kg", kg, "-o", tmp_path / n_workers, "--workers", n_workers)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert entities(tmp_path / "2")[-1] == ("600", ["Q1471", "Q90", "Q142"])


def test_json_lines_with_and_without_mentions(kg: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "Paris or Berlin?", "mentions": [{"start": 9, "end": 15, "entity": "wrong"}]},
        {"text": "Paris or Berlin?", "id": "two"},
        {"text": "In Bonn.", "mentions": []},
    ]
    notes, out = tmp_path / "notes.jsonl", tmp_path / "out.jsonl"
    notes.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    result = run(notes, "--kg", kg, "-o", out)
    assert result.exit_code == 0, result.output
    assert entities(out) == [("1", ["Q64"]), ("two", ["Q90", "Q64"]), ("3", [])]


FOREIGN: dict[str, tuple[str, Any]] = {
    "tagme": ("[{}]", {
        "sent": "In Bonn.", "start": 3, "end": 7, "labels": ["city"],
        "ents": [["Q5", 3, 7, 0.4]],
    }),
    "elevant": ("{}", {
        "id": 7, "text": "In Bonn.", "labels": [{"span": [3, 7], "entity_id": "Q5"}],
    }),
    "fewrel": ('{{"P1": [{}]}}', {
        "tokens": ["Bonn", ",", "Germany"],
        "h": ["bonn", "Q5", [[0]]], "t": ["germany", "Q6", [[2]]],
    }),
    "wiki80": ("{}", {
        "token": ["Bonn", ",", "Germany"], "relation": "in",
        "h": {"pos": [0, 1], "id": "Q5"}, "t": {"pos": [2, 3], "id": "Q6"},
    }),
    "trex": ("{}", {
        "uuid": "u", "sub_uri": "Q5", "obj_uri": "Q6", "predicate_id": "P1",
        "evidences": [{
            "sub_surface": "Bonn", "obj_surface": "Germany",
            "masked_sentence": "Bonn lies in [MASK].",
        }],
    }),
}  # fmt: skip


@pytest.mark.parametrize("format", sorted(FOREIGN))
def test_annotations_of_others_are_linked_anew(kg: Path, tmp_path: Path, format: str) -> None:
    shape, row = FOREIGN[format]
    source, out = tmp_path / "rows", tmp_path / "out.jsonl"
    source.write_text(shape.format(json.dumps(row)), encoding="utf-8")
    result = run(source, "--kg", kg, "--format", format, "-o", out)
    assert result.exit_code == 0, result.output
    ((id_, entities_of_text),) = entities(out)
    assert id_
    assert entities_of_text == (["Q2"] if format in ("tagme", "elevant") else ["Q2", "Q183"])


def test_unreadable_lines_are_named(kg: Path, tmp_path: Path) -> None:
    notes, out = tmp_path / "notes.jsonl", tmp_path / "out.jsonl"
    notes.write_bytes(b'{"text": "In Bonn."}\nnothing\n{"text": "In Bonn."}\n')
    stopped = run(notes, "--kg", kg, "-o", out)
    assert stopped.exit_code == 1
    assert "notes.jsonl, line 2" in stopped.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.jsonl"]
    skipped = run(notes, "--kg", kg, "-o", out, "--damage", "skip")
    assert skipped.exit_code == 0, skipped.output
    assert "notes.jsonl, line 2" in skipped.output
    assert [entities_of_text for _, entities_of_text in entities(out)] == [["Q2"], ["Q2"]]


def test_a_stopped_run_goes_on(kg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, whole, out = (tmp_path / name for name in ("notes.txt", "whole.jsonl", "out.jsonl"))
    notes.write_text("\n".join(LINES), encoding="utf-8")
    assert run(notes, "--kg", kg, "-o", whole).exit_code == 0

    stream = link_command.line_stream
    n_linked = []

    def breaks(*arguments: Any) -> Iterator[list[bytes]]:
        yield next(stream(*arguments))
        raise KeyboardInterrupt

    def counted(*arguments: Any) -> Iterator[list[bytes]]:
        for step in stream(*arguments):
            n_linked.append(len(step))
            yield step

    monkeypatch.setattr(link_command, "line_stream", breaks)
    assert run(notes, "--kg", kg, "-o", out).exit_code != 0
    part = tmp_path / "out.jsonl.part"
    with part.open("ab") as stream_of_part:
        stream_of_part.write(b'{"id":"257","text":"The Se')
    assert not out.exists()
    monkeypatch.setattr(link_command, "line_stream", counted)

    again = run(notes, "--kg", kg, "-o", out)
    assert again.exit_code == 1
    assert "--resume" in again.output
    other = run(notes, "--kg", kg, "-o", out, "--resume", "--nil-below", "0.5")
    assert other.exit_code == 1
    assert "other settings" in other.output
    changed = tmp_path / "changed.txt"
    changed.write_text("Bonn\n" + "\n".join(LINES), encoding="utf-8")
    elsewhere = run(changed, "--kg", kg, "-o", out, "--resume")
    assert elsewhere.exit_code == 1
    assert "is not text 1 of the input" in elsewhere.output

    result = run(notes, "--kg", kg, "-o", out, "--resume")
    assert result.exit_code == 0, result.output
    assert sum(n_linked) == 600 - 256
    assert out.read_bytes() == whole.read_bytes()
    assert not part.exists()


def test_resume_without_anything_begun(kg: Path, tmp_path: Path) -> None:
    notes, out = tmp_path / "notes.txt", tmp_path / "out.jsonl"
    notes.write_text("In Bonn.", encoding="utf-8")
    assert run(notes, "--kg", kg, "-o", out, "--resume").exit_code == 0
    assert entities(out) == [("1", ["Q2"])]
    notes.write_text("", encoding="utf-8")
    for flag in ([], ["--resume"]):
        again = run(notes, "--kg", kg, "-o", out, *flag)
        assert again.exit_code == 1
        assert "exists; choose another name, or replace it with --force" in again.output
    assert run(notes, "--kg", kg, "-o", out, "--force").exit_code == 0
    assert entities(out) == []


@pytest.mark.parametrize("flag", ["--force", "--resume"])
def test_the_input_is_never_the_output(kg: Path, tmp_path: Path, flag: str) -> None:
    notes, other = tmp_path / "notes.txt", tmp_path / "other.txt"
    notes.write_text("In Bonn.", encoding="utf-8")
    other.hardlink_to(notes)
    for out in (notes, other):
        refusal = run(notes, "--kg", kg, "-o", out, flag)
        assert refusal.exit_code == 1
        assert "is the input" in refusal.output
    assert notes.read_text(encoding="utf-8") == "In Bonn."
    linked = run(notes, "--kg", kg, "-o", tmp_path / "links.jsonl")
    assert linked.exit_code == 0, linked.output
    worse = tmp_path / "links.jsonl"
    refusal = run("corrupt", worse, "-o", worse, "--drop", "1", "--force")
    assert "is the input" in refusal.output
    assert entities(worse) == [("1", ["Q2"])]


@pytest.mark.parametrize("flag", ["--force", "--resume"])
def test_two_processes_never_write_one_output(
    kg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """The second is refused while the first is at it; it once published every text twice."""
    notes, whole, out = (tmp_path / name for name in ("notes.txt", "whole.jsonl", "out.jsonl"))
    notes.write_text("\n".join(LINES), encoding="utf-8")
    assert run(notes, "--kg", kg, "-o", whole).exit_code == 0
    stream, second = link_command.line_stream, []

    def meets_another(*arguments: Any) -> Iterator[list[bytes]]:
        monkeypatch.setattr(link_command, "line_stream", stream)
        for step in stream(*arguments):
            second.append(run(notes, "--kg", kg, "-o", out, flag))
            yield step

    monkeypatch.setattr(link_command, "line_stream", meets_another)
    first = run(notes, "--kg", kg, "-o", out)
    assert first.exit_code == 0, first.output
    assert second
    assert {result.exit_code for result in second} == {1}
    assert all("is being written by another process" in result.output for result in second)
    assert out.read_bytes() == whole.read_bytes()


def test_a_run_that_died_while_tidying_up(kg: Path, tmp_path: Path) -> None:
    notes, out = tmp_path / "notes.txt", tmp_path / "out.jsonl"
    notes.write_text("In Bonn.", encoding="utf-8")
    assert run(notes, "--kg", kg, "-o", out).exit_code == 0
    settings = LinkerSettings(kg=str(kg))
    key = Work(settings, candidates=3).key(open_graph(settings))
    (tmp_path / "out.jsonl.part.json").write_text(json.dumps({"linker": key}))
    before = out.read_bytes()
    result = run(notes, "--kg", kg, "-o", out, "--resume")
    assert result.exit_code == 0, result.output
    assert out.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["notes.txt", "out.jsonl"]


def test_own_table_and_text_in_one_command(tmp_path: Path) -> None:
    table, labels, notes = (tmp_path / name for name in ("my.tsv", "labels.tsv", "notes.txt"))
    table.write_text("acme_corp\tmakes\trocket_skates\nacme_corp\tseat\tnew_york\n")
    notes.write_text("Rocket skates by Acme Corp.\n", encoding="utf-8")
    out = tmp_path / "out.jsonl"
    linking = run(notes, "--kg", table, "-o", out)
    assert "identifiers" not in linking.stderr  # they read like names
    codes = tmp_path / "codes.tsv"
    codes.write_text("Q5\tmakes\trocket_skates\n")
    noted = run(notes, "--kg", codes, "-o", tmp_path / "codes.jsonl")
    assert "its identifiers, such as Q5" in " ".join(noted.stderr.split())
    assert entities(out) == [("1", ["rocket_skates", "acme_corp"])]
    labels.write_text("acme_corp\tThe Acme\n")
    result = run("The Acme pays.", "--kg", table, "--labels", labels, "--explain")
    assert result.exit_code == 0, result.output
    assert "label 'The Acme'" in result.output
    assert "its identifiers" not in result.stderr
    both = run(notes, "--kg", table, "-o", tmp_path / "two.jsonl", "--workers", "2")
    assert both.exit_code == 0, both.output
    assert (tmp_path / "two.jsonl").read_bytes() == out.read_bytes()


def test_a_cache_gives_the_same(kg: Path, tmp_path: Path) -> None:
    plain = run("In Paris.", "--kg", kg, "--json")
    for _ in range(2):
        cached = run("In Paris.", "--kg", kg, "--json", "--cache", tmp_path / "cache")
        assert cached.output == plain.output
    explained = run("In Paris.", "--kg", kg, "--explain", "--cache", tmp_path / "cache")
    assert explained.output == run("In Paris.", "--kg", kg, "--explain").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Paris", "--format", "odd"], "Paris is not a file"),
        (["NOTES", "--format", "odd"], "--format is 'odd'"),
        (["Paris", "--damage", "quarantine"], "--damage is 'quarantine'"),
        (["Paris", "--resume"], "name it with -o"),
        (["Paris", "--method", "magic"], "method is 'magic'"),
        (["Paris", "--labels", "NOTES"], "is a folder and has its names"),
    ],
)
def test_wrong_options_are_told(
    kg: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Paris", encoding="utf-8")
    words = [str(notes) if argument == "NOTES" else argument for argument in arguments]
    result = run(*words, "--kg", kg)
    assert result.exit_code == 1
    assert message in result.output
