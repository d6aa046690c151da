"""Answers of SPARQL as rows of cells with labels beside identifiers."""

from __future__ import annotations

import pytest

from kept.apps.serve.querying import MOST_CHARACTERS, query_rows
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import QueryError


@pytest.fixture(scope="module")
def world() -> KnowledgeGraph:
    """Two capitals with labels, a word that is its own label, and a very long one."""
    records = [
        Triple("Q90", "P1376", "Q142"), Triple("Q64", "P1376", "Q183"),
        Triple("Q90", "in", "Ardia"),
        Text("Q90", TextKind.LABEL, "Paris", "en"), Text("Q142", TextKind.LABEL, "France", "en"),
        Text("P1376", TextKind.LABEL, "capital of", "en", 0, True),
        Text("Q64", TextKind.LABEL, "B" * (MOST_CHARACTERS + 9), "en"),
    ]  # fmt: skip
    return graph_from_records(records)


def test_rows_of_a_select_are_cut_and_counted(world: KnowledgeGraph) -> None:
    result = query_rows(
        world, "SELECT ?h ?t WHERE { ?h ?r ?t . FILTER(isIRI(?t)) } ORDER BY ?h ?t", 2
    )
    assert result["columns"] == ["h", "t"]
    assert result["n_rows"] == 3
    assert len(result["rows"]) == 2
    cells = {cell for row in result["rows"] for cell in row}
    assert "Q183" in cells, "without a label it is its identifier alone"


def test_identifiers_are_given_with_their_labels(world: KnowledgeGraph) -> None:
    every = query_rows(world, "SELECT ?h ?r ?t WHERE { ?h ?r ?t . FILTER(isIRI(?t)) }", 99)["rows"]
    rows = {tuple(row) for row in every}
    assert ("Q90 (Paris)", "P1376 (capital of)", "Q142 (France)") in rows
    assert ("Q90 (Paris)", "in", "Ardia") in rows


def test_a_name_without_a_value_is_an_empty_cell(world: KnowledgeGraph) -> None:
    result = query_rows(world, "SELECT ?x ?y WHERE { BIND(3 AS ?x) }", 9)
    assert result["rows"] == [["3", ""]]


def test_truth_and_triples_are_rows(world: KnowledgeGraph) -> None:
    for query, word in (("ASK { ?h ?r ?t }", "true"), ("ASK { ?h ?r ?h }", "false")):
        assert query_rows(world, query, 1) == {"columns": ["answer"], "rows": [[word]], "n_rows": 1}
    query = "CONSTRUCT { ?h ?r ?t } WHERE { ?h ?r ?t . FILTER(isIRI(?t)) }"
    result = query_rows(world, query, 2)
    assert result["columns"] == ["subject", "predicate", "object"]
    assert (len(result["rows"]), result["n_rows"]) == (2, 3)
    every = {tuple(row) for row in query_rows(world, query, 99)["rows"]}
    assert ("Q90 (Paris)", "P1376 (capital of)", "Q142 (France)") in every


def test_long_texts_are_cut(world: KnowledgeGraph) -> None:
    query = 'SELECT ?t WHERE { ?h ?r ?t . FILTER(STRSTARTS(STR(?t), "BB")) }'
    (row,) = query_rows(world, query, 9)["rows"]
    assert row == ["B" * MOST_CHARACTERS]


def test_a_wrong_query_is_an_error_without_options_of_a_command(world: KnowledgeGraph) -> None:
    with pytest.raises(QueryError) as caught:
        query_rows(world, "SELECT WHERE", 9)
    assert "--" not in str(caught.value)
