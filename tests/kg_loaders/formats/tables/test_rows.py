"""Rows of a table to records: triples, texts of their ends, literals, nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kg_loaders.damage import DamageReport
from kg_loaders.formats.tables.layout import NodeLayout, TripleLayout
from kg_loaders.formats.tables.rows import NEGATED, RowReader, order_remedy
from kg_loaders.formats.tables.values import NO_PLACE
from kg_loaders.records import Text, TextKind, Triple

LABEL, ALIAS, TYPE = TextKind.LABEL, TextKind.ALIAS, TextKind.TYPE


def read(layout: Any, *rows: list[str]) -> tuple[list[Any], DamageReport, list[str]]:
    report, records, faults = DamageReport(), [], []
    reader = RowReader(layout, report)
    for row in rows:
        result, fault = reader.records(row)
        records += result
        faults += [fault] if fault else []
    return records, report, faults


def test_a_triple_by_the_places_of_its_columns() -> None:
    layout = TripleLayout(2, 0, 1)
    records, report, faults = read(
        layout, ["r", "b", "a"], ["r", "", "a"], ["r", "b"], ["r", "b", ""]
    )
    assert records == [Triple("a", "r", "b")]
    assert faults == ["empty field", "2 fields instead of 3", "empty field"]
    assert report.n_further == 0


def test_texts_of_the_ends_come_once() -> None:
    layout = TripleLayout(0, 1, 2, n_fields=6, texts=((0, LABEL, 3), (2, ALIAS, 4), (1, LABEL, 5)))
    rows = [["a", "r", "b", "A", "B|Bee| |B", "likes"], ["a", "r", "c", "A", "", "likes"]]
    records, report, _ = read(layout, *rows)
    assert records == [
        Triple("a", "r", "b"), Text("a", LABEL, "A"), Text("b", ALIAS, "B"),
        Text("b", ALIAS, "Bee"), Text("r", LABEL, "likes", is_relation=True), Triple("a", "r", "c"),
    ]  # fmt: skip
    assert report.n_further == 4


def test_a_label_is_one_text_whatever_it_holds() -> None:
    layout = NodeLayout(0, ((LABEL, 1), (TYPE, 2)), 3)
    records, report, _ = read(layout, ["a", "x|y", "p|q"], ["b", " ", ""], ["", "x", ""])
    assert records == [Text("a", LABEL, "x|y"), Text("a", TYPE, "p"), Text("a", TYPE, "q")]
    assert report.skipped == {"line without a text": 1}
    assert report.n_further == 2


def test_an_identifier_stands_behind_its_source_once() -> None:
    layout = TripleLayout(0, 1, 2, n_fields=5, sources={0: 3, 2: 4})
    records, _, _ = read(layout, ["9606", "r", "DO:1", "NCBI", "DO"], ["1", "r", "2", "", "X"])
    assert records == [Triple("NCBI:9606", "r", "DO:1"), Triple("1", "r", "X:2")]
    nodes = NodeLayout(0, ((LABEL, 1),), 4, language=2, source=3, is_relation=True)
    records, _, _ = read(nodes, ["7", "seven", "en", "N"], ["7", "sept", "fr", ""])
    assert records == [
        Text("N:7", LABEL, "seven", "en", 0, True), Text("7", LABEL, "sept", "fr", 0, True),
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["not", "TRUE", " yes ", "1"])
def test_what_is_denied_is_no_fact(value: str) -> None:
    layout = TripleLayout(0, 1, 2, n_fields=4, negations=(3,))
    records, report, faults = read(layout, ["a", "r", "b", value], ["a", "r", "c", "no"])
    assert records == [Triple("a", "r", "c")]
    assert report.skipped == {NEGATED: 1}
    assert faults == []


def test_literals_of_kgtk_are_texts_or_have_no_place() -> None:
    layout = TripleLayout(0, 1, 2, n_fields=4, values="kgtk", texts=((0, LABEL, 3),))
    rows = [
        ["Q1", "P17", "Q2", "'Paris'@fr|plain"], ["Q1", "label", "'Weir'@en", ""],
        ["Q1", "alias", '"W"', ""], ["Q1", "P1082", "+5", ""], ["Q1", "label", "+5", ""],
        ["+5", "P17", "Q2", ""], ["Q1", "P18", "'a'@en", ""], ["Q1", "P17", "Q3", "'Paris'@fr"],
        ["Q1", '"r"', "Q3", ""],
    ]  # fmt: skip
    records, report, _ = read(layout, *rows)
    assert records == [
        Triple("Q1", "P17", "Q2"), Text("Q1", LABEL, "Paris", "fr"), Text("Q1", LABEL, "plain"),
        Text("Q1", LABEL, "Weir", "en"), Text("Q1", ALIAS, "W"), Triple("Q1", "P17", "Q3"),
    ]  # fmt: skip
    assert report.skipped == {NO_PLACE: 5}


def test_a_literal_of_yago_has_no_brackets() -> None:
    layout = TripleLayout(0, 1, 2, values="yago")
    rows = [["<Weir>", "rdfs:label", '"Weir"@eng'], ["<Weir>", "<in>", "<Ardia>"],
            ["<Weir>", "<n>", '"5"^^xsd:integer']]  # fmt: skip
    records, report, _ = read(layout, *rows)
    assert records[0].value == "Weir"
    assert records[1] == Triple(records[0].node, "in", "Ardia")
    assert report.skipped == {NO_PLACE: 1}


def test_the_remedy_for_more_fields_says_an_order() -> None:
    assert [bool(order_remedy(n)) for n in (2, 3, 4, 26, 27)] == [False, False, True, True, False]
    assert "--order hrt-," in order_remedy(4)
    assert f"--order hrt{'-' * 23}," in order_remedy(26)
