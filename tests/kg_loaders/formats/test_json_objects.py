"""Triples and nodes as JSON: every form, what is left out, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.json_objects import UNKNOWN_RELATION, read, record_of
from kg_loaders.records import Text, TextKind, Triple

VISITS = Triple("Mira", "visits", "Weir")
LABEL, ALIAS, TYPE = TextKind.LABEL, TextKind.ALIAS, TextKind.TYPE


def loaded(tmp_path: Path, document: Any) -> tuple[list[Any], DamageReport]:
    path, report = tmp_path / "graph.json", DamageReport(DamagePolicy.SKIP)
    path.write_text(json.dumps(document), encoding="utf-8")
    return list(read(path, report)), report


@pytest.mark.parametrize(
    "item",
    [
        ["Mira", "visits", "Weir"],
        {"subject": "Mira", "predicate": "visits", "object": "Weir"},
        {"Head": "Mira", "relation": "visits", "TAIL": "Weir"},
        {"source": "Mira", "target": "Weir", "key": "visits"},
        {"source": {"id": "Mira", "name": "M"}, "target": {"name": "Weir"}, "key": "visits"},
        {"from": "Mira", "to": "Weir", "properties": {"relation": "visits"}},
        {"id": "9", "type": "relationship", "label": "visits", "start": {"id": "Mira"},
         "end": {"id": "Weir"}},
    ],
)  # fmt: skip
def test_forms_of_a_triple(tmp_path: Path, item: Any) -> None:
    records, report = loaded(tmp_path, [item])
    assert records == [VISITS]
    assert (report.n_lines, report.n_rejected, report.notes) == (1, 0, [])
    assert report.units == "triples and nodes"


@pytest.mark.parametrize("nodes", ["nodes", "vertices", "entities"])
@pytest.mark.parametrize("edges", ["links", "edges", "relationships"])
def test_a_graph_has_its_nodes_first(tmp_path: Path, nodes: str, edges: str) -> None:
    link = {"source": "Mira", "target": "Weir", "key": "visits"}
    records, _ = loaded(tmp_path, {edges: [link], nodes: [{"id": "Mira", "name": "M"}], "x": [1]})
    assert records == [Text("Mira", LABEL, "M"), VISITS]


def test_lists_of_facts(tmp_path: Path) -> None:
    for name in ("triples", "triplets", "facts"):
        assert loaded(tmp_path, {name: [["Mira", "visits", "Weir"]]})[0] == [VISITS]
    for nothing in ({}, {"triples": 3}, {"other": []}, 7):
        with pytest.raises(SourceError, match="holds no list of triples or nodes"):
            loaded(tmp_path, nothing)


def test_texts_of_a_node(tmp_path: Path) -> None:
    node = {"id": 7, "name": "Mira", "aliases": ["M", "M", "", None, "Mi"], "type": ["Person"]}
    records, report = loaded(
        tmp_path, [node, {"id": "bare"}, {"id": "x", "name": "X", "colour": 1}]
    )
    assert records == [
        Text("7", LABEL, "Mira"), Text("7", ALIAS, "M"), Text("7", ALIAS, "Mi"),
        Text("7", TYPE, "Person"), Text("x", LABEL, "X"),
    ]  # fmt: skip
    assert report.skipped == {"node without a name, label or description": 1, "key colour": 1}
    assert report.n_further == 3 + 1
    assert report.n_lines == 3


def test_an_edge_without_a_relation_is_noted(tmp_path: Path) -> None:
    pair = {"source": "Mira", "target": "Weir"}
    records, report = loaded(tmp_path, {"edges": [pair, {**pair, "key": ""}, {**pair, "key": 0}]})
    assert records == [Triple("Mira", UNKNOWN_RELATION, "Weir")] * 3
    assert len(report.notes) == 1
    assert "3 edges name no relation" in report.notes[0]


@pytest.mark.parametrize(
    "item",
    [
        ["Mira", "visits"], ["Mira", "visits", ""], ["Mira", "visits", None], [1.5, "r", "b"],
        "Mira",
        {"source": "", "target": "Weir"}, {"subject": "Mira", "predicate": "r", "object": ""},
        ["Mira", "visits", True], ["Mira", "visits", 10**20], ["Mira", "visits", {"x": "Weir"}],
        ["Mira", "visits", {"id": {"id": "Weir"}}], ["Mira", "visits", "\ud800"], {"name": "Mira"},
    ],
)  # fmt: skip
def test_what_is_neither_is_rejected_by_its_number(tmp_path: Path, item: Any) -> None:
    records, report = loaded(tmp_path, [["Mira", "visits", "Weir"], item])
    assert records == [VISITS]
    ((rejection),) = report.rejections
    assert rejection.line == 2
    assert "neither a triple nor a node" in rejection.reason


def test_whole_numbers_are_names_up_to_twenty_digits(tmp_path: Path) -> None:
    assert loaded(tmp_path, [[1, "r", 10**20 - 1]])[0] == [Triple("1", "r", "9" * 20)]
    assert loaded(tmp_path, [[-(10**20) + 1, "r", "ü"]])[0] == [Triple("-" + "9" * 20, "r", "ü")]


def test_what_follows_the_document_is_rejected(tmp_path: Path) -> None:
    path, report = tmp_path / "graph.json", DamageReport(DamagePolicy.SKIP)
    path.write_text('[["Mira", "visits", "Weir"]]\n[1]', encoding="utf-8")
    assert list(read(path, report)) == [VISITS]
    assert (report.n_lines, report.n_rejected) == (2, 1)


@pytest.mark.parametrize(
    ("line", "n"),
    [
        ('{"subject": "Mira", "predicate": "visits", "object": "Weir"}', 1),
        ('["Mira", "visits", "Weir"]', 1), ('{"id": "Mira", "name": "M"}', 1),
        ('{"source": "Mira", "target": "Weir"}', 0), ("no JSON", 0), ("3", 0), ('["Mira"]', 0),
        ('{"subject": "Mira", "predicate": "visits", "object": "Weir", "year": 3}', 0),
    ],
)  # fmt: skip
def test_a_line_of_which_every_key_is_known(line: str, n: int) -> None:
    assert len(record_of(line.encode())) == n


def test_keys_that_say_nothing_of_a_triple_are_counted(tmp_path: Path) -> None:
    """The identifier of an edge is its own in a network and in APOC, not in a list of facts."""
    network = {"id": 9, "source": "Mira", "target": "Weir", "key": "visits", "weight": 3}
    records, report = loaded(tmp_path, {"edges": [network]})
    assert (records, report.skipped) == ([VISITS], {"key weight": 1})
    apoc = {"id": "9", "type": "relationship", "label": "visits", "start": {"id": "Mira"},
            "end": {"id": "Weir"}}  # fmt: skip
    assert loaded(tmp_path, [apoc])[1].skipped == {}
    fact = {"id": "9", "head": "Mira", "relation": "visits", "tail": "Weir"}
    assert loaded(tmp_path, [fact])[1].skipped == {"key id": 1}


@pytest.mark.parametrize(
    "item",
    [
        {"source": "Mira"}, {"target": "Weir"}, {"id": "", "name": "Mira"},
        {"subject": "Mira", "predicate": "visits", "object": None},
        {"subject": "", "predicate": "visits", "object": "Weir"},
    ],
)  # fmt: skip
def test_half_a_triple_is_none(tmp_path: Path, item: Any) -> None:
    records, report = loaded(tmp_path, [item, ["Mira", "visits", "Weir"]])
    assert records == [VISITS]
    assert report.n_rejected + report.n_skipped == 1
