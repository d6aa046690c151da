"""Numbers and dates that a table makes entities of are counted and said."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kg_loaders import Text, TextKind, Triple, graph_from_records, load
from kg_loaders.literal_entities import literal_notes, values_as_entities
from kg_loaders.opening import text_sources


@pytest.mark.parametrize(
    "value",
    [
        "1815", "-3", "+5", "0", "3.14", ".5", "5.", "1,234", "1,234,567.5", "6.02e23", "1E-9",
        "12%",
        "1815-12-10", "1815-12", "-0044-03-15", "1953-03-12T00:00:00Z", "1953-03-12 10:00:00",
        "+1952-03-11T00:00:00Z", "10.12.1815", "12/10/1815", "12/10/15",
        "2026-01-01T10:00:00+02:00",
    ],
)  # fmt: skip
def test_a_value_is_seen(value: str) -> None:
    graph = graph_from_records([Triple("Ada", "has", value), Triple("Ada", "knows", "Bo")])
    (column,) = values_as_entities(graph)
    assert (column.relation, column.n, column.n_triples) == ("has", 1, 1)
    assert column.examples == (value,)


@pytest.mark.parametrize(
    "name",
    [
        "Q1815", "1815 AD", "747-400", "3M", "4chan", "B12", "1-2-3", "v1.2", "1.2.3.4", "n/a", ".",
        "-", "+", "e5", "12 %", "twelve", "00-1", "１２", "1815-12-10x", "/m/02", "1,23", "%",
    ],
)  # fmt: skip
def test_a_name_is_no_value(name: str) -> None:
    graph = graph_from_records([Triple("Ada", "has", name)])
    assert values_as_entities(graph) == []


def test_identifiers_that_are_numbers_are_entities() -> None:
    numbered = [Triple("00260881", "hypernym", "00260622"), Triple("1", "knows", "2")]
    assert values_as_entities(graph_from_records(numbered)) == []
    labelled = [Triple("Ada", "born in", "1815"), Text("1815", TextKind.LABEL, "the year 1815")]
    assert values_as_entities(graph_from_records(labelled)) == []
    headed = [Triple("Ada", "born in", "1815"), Triple("1815", "before", "next")]
    assert values_as_entities(graph_from_records(headed)) == []
    band = [Triple("Ada", "hears", name) for name in ("U2", "Queen", "311")]
    assert values_as_entities(graph_from_records(band)) == []


def test_relations_are_counted_and_the_first_shown() -> None:
    triples = [Triple(f"p{i}", f"r{k}", f"{k}{i}") for i in range(4) for k in range(1, 9)]
    (note,) = literal_notes(graph_from_records(triples))
    assert note.startswith("values became entities: 4 of 4 tails of r1 are numbers or dates (10, ")
    assert "; 3 more relations. To read" in note


@pytest.mark.parametrize("name", ["facts.tsv", "facts.csv"])
def test_building_says_so(name: str, tmp_path: Path) -> None:
    border = "\t" if name.endswith("tsv") else ","
    rows = [("Ada", "born", "1815-12-10"), ("Bo", "born", "1900-01-02"), ("Ada", "knows", "Bo")]
    (tmp_path / name).write_text("".join(border.join(row) + "\n" for row in rows))
    report = load([tmp_path / name])[1]
    assert sum("2 of 2 tails of born are numbers or dates" in note for note in report.notes) == 1
    command = ["kg", "build", str(tmp_path / name), "-o", str(tmp_path / "kg")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "note: values became entities: 2 of 2 tails of born" in done.output
    assert "literals.tsv (kept kgc train --literals)" in done.output


def test_names_of_other_identifiers_than_those_of_the_triples_are_said(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("n1\tknows\tn2\n")
    for number, is_apart in (("1", True), ("n1", False)):
        labels = tmp_path / f"labels-{number}.tsv"
        labels.write_text(f"{number}\tAda\n")
        report = load([tmp_path / "facts.tsv", *text_sources("labels", labels)])[1]
        notes = [note for note in report.notes if "none of the 1 entities with a name" in note]
        assert bool(notes) is is_apart
        assert all("names are of '1', triples of 'n1'" in note for note in notes)


def test_completion_says_so(tmp_path: Path) -> None:
    people = [f"p{i}" for i in range(12)]
    rows = [f"{p}\tborn\t{1800 + i}\n" for i, p in enumerate(people)]
    rows += [f"{p}\tknows\t{q}\n" for p in people for q in people if p < q]
    (tmp_path / "facts.tsv").write_text("".join(rows))
    command = ["kg", "build", str(tmp_path / "facts.tsv"), "-o", str(tmp_path / "kg")]
    assert CliRunner().invoke(app, command).exit_code == 0
    done = CliRunner().invoke(
        app,
        ["kgc", "train", str(tmp_path / "kg"), "-o", str(tmp_path / "run"), "--scorer", "transe",
         "--epochs", "1"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "12 of 12 tails of born are numbers or dates (1800, 1801, 1802)" in done.output
