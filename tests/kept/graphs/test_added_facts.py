"""A fact that is added to a finished graph stands where CoLAKE puts a fact."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking.annotations import gold_link
from kept.errors import BatchError
from kept.graphs.edit import add_fact
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph


def test_an_added_fact_is_its_relation_and_its_tail() -> None:
    graph = WordKnowledgeGraph(
        kinds=np.array([NodeKind.WORD, NodeKind.ENTITY], np.uint8), ids=np.array([7, 3], np.int32),
        positions=np.array([0, 1], np.int32), segments=np.zeros(2, np.int32),
        spans=np.array([[0, 2], [3, 5]], np.int32),
        origins=np.array([[-1, -1, -1], [0, -1, -1]], np.int32),
        edges=np.zeros((0, 2), np.int32), edge_kinds=np.zeros(0, np.uint8),
        edge_weights=np.zeros(0, np.float32), text="ab cd", links=(gold_link(3, 5, "e"),),
        id_space_hash="",
    )  # fmt: skip
    grown = add_fact(graph, head=1, relation=5, tail=4)
    assert grown.ids.tolist() == [7, 3, 4, 5]
    assert grown.kinds[2:].tolist() == [NodeKind.ENTITY, NodeKind.RELATION]
    assert grown.positions.tolist() == [0, 1, 3, 2]
    assert grown.edges.tolist() == [[1, 3], [3, 2]]
    assert grown.edge_kinds.tolist() == [EdgeKind.ENTITY_RELATION, EdgeKind.RELATION_ENTITY]
    with pytest.raises(BatchError, match="is not an entity"):
        add_fact(graph, head=0, relation=5, tail=4)
