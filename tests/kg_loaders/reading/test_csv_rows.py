"""Rows of CSV: long fields, quotes that do not end, and what they may cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kg_loaders import DamageReport, KgError, Source, Text, Triple, load
from kg_loaders.damage import DamagePolicy
from kg_loaders.formats.tables import csv_triples, neo4j


def test_a_field_may_be_longer_than_the_csv_module_allows(tmp_path: Path) -> None:
    long = "x" * 300_000
    (tmp_path / "t.csv").write_text(f"a,r,{long}\n")
    assert load([tmp_path / "t.csv"])[0].facts("a") == [("a", "r", long)]
    (tmp_path / "n.csv").write_text(f':ID,name,description\n1,A,"{long},"\n')
    graph, _ = load([tmp_path / "n.csv"])
    assert graph.n_entities == 1
    texts = list(neo4j.read(tmp_path / "n.csv", DamageReport()))
    assert [len(text.value) for text in texts if isinstance(text, Text)] == [1, 300_001]


def test_an_open_quote_costs_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [f"a{i},r,b{i}" for i in range(50)]
    path.write_text("\n".join([*rows[:10], '"a,r,b', *rows[10:]]))
    report = DamageReport(DamagePolicy.SKIP)
    actual = list(csv_triples.read(path, report))
    assert actual == [Triple(f"a{i}", "r", f"b{i}") for i in range(50)]
    assert report.reasons == {"no CSV: a quoted field does not end": 1}
    report.n_triples = len(actual)
    report.check()
    with pytest.raises(KgError, match=r"x\.csv, line 11 .*a quoted field does not end"):
        load([path])
    report = DamageReport(DamagePolicy.SKIP)
    actual = list(csv_triples.read(path, report, max_line_bytes=100))
    assert len(actual) == 50
    assert report.reasons == {"no CSV: a quoted field does not end within 100 bytes": 1}


def test_an_open_quote_in_a_table_of_neo4j(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(':ID,name,:LABEL\n1,"A,P\n' + "".join(f"{i},N{i},P\n" for i in range(2, 40)))
    graph, report = load([Source(path, "neo4j")], policy="skip")
    assert graph.n_entities == 38
    assert report.n_rejected == 1


def test_quotes_that_open_and_open_again_take_no_longer(tmp_path: Path) -> None:
    """In each line one field ends and one begins: read again and again, that is the square."""
    path = tmp_path / "x.csv"
    path.write_text('a,r,b\na,"b\n' + 'a","\n' * 200_000)
    begin = time.process_time()
    report = DamageReport(DamagePolicy.SKIP)
    actual = list(csv_triples.read(path, report, max_line_bytes=1 << 20))
    assert actual[0] == Triple("a", "r", "b")
    report.n_triples = len(actual)
    report.check()
    assert time.process_time() - begin < 30
