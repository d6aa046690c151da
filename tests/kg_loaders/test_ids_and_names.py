"""A name where an id is due says how to get the id; a number outside says how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import KgError, NodeIdError
from kg_loaders.vocabulary import Vocabulary

QUERIES: list[Callable[[KnowledgeGraph, Any], object]] = [
    KnowledgeGraph.label,
    KnowledgeGraph.aliases,
    KnowledgeGraph.description,
    KnowledgeGraph.types,
    KnowledgeGraph.outgoing,
    KnowledgeGraph.incoming,
    KnowledgeGraph.relation_label,
]


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return graph_from_records(
        [Triple("d020", "treats", "d021"), Text("d020", TextKind.LABEL, "imatinib")]
    )


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
def test_a_name_is_told_how_to_become_an_id(query: Any, graph: KnowledgeGraph) -> None:
    with pytest.raises(
        NodeIdError,
        match=r"'d020' is not an id but a str; "
        r"graph\.entities\.id\('d0",
    ):
        query(graph, "d020")
    for outside in (2, -1, 10**12):
        with pytest.raises(NodeIdError, match="is outside"):
            query(graph, outside)
    with pytest.raises(NodeIdError, match="a float"):
        query(graph, 0.5)


def test_ids_of_any_integer_type_are_taken(graph: KnowledgeGraph) -> None:
    row = graph.entities.id("d020")
    assert graph.label(np.int32(row)) == graph.label(row) == "imatinib"
    assert len(graph.outgoing(np.int64(row))) == 1


@pytest.mark.parametrize("query", ["imatinib", [1, 2], [["d020", "treats", "d021"]], None, 0.5])
def test_find_takes_rows_of_ids(query: Any, graph: KnowledgeGraph) -> None:
    with pytest.raises(KgError, match=r"graph\.entities\.find\(NAME\)"):
        graph.find(query)
    assert graph.find(np.array([[0, 0, 1]], np.int32)).tolist() == [0]


@pytest.mark.parametrize("n_names", [1, 2, 3, 41, 1000])
@pytest.mark.parametrize("n_asked", [0, 1, 19, 20, 24])
def test_ids_of_many_names_are_those_of_each(n_names: int, n_asked: int) -> None:
    """By a search each, by one for all in step, and by a table: as many as there are names."""
    vocabulary = Vocabulary.of(f"Q{3 * i}é" for i in range(n_names))
    queries = [f"Q{i}é" for i in np.random.default_rng(1).integers(0, 3 * n_names + 4, n_asked)]
    queries = [*queries, "", "R", "Q0é", "Q"][: max(n_asked, 4)]
    for names in (queries, queries * 8, queries * 300):
        each = [vocabulary.find(name) for name in names]
        actual = vocabulary.ids(names)
        assert actual.dtype == np.int32
        assert actual.tolist() == [-1 if index is None else index for index in each]
