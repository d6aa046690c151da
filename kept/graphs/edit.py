"""Changes to a finished `WordKnowledgeGraph`.

Axis legend: node, edge.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kept.errors import BatchError
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph


def add_relation(
    graph: WordKnowledgeGraph, *, head: int, tail: int, relation: int
) -> WordKnowledgeGraph:
    """Join two entity nodes by a new relation node, the last node of the result.

    It stands where CoLAKE puts a relation: one position after its head. Its origin names the head's
    link and no triple. `head` and `tail` are node indices; raises `BatchError` for other kinds.
    """
    for name, node in (("head", head), ("tail", tail)):
        if not 0 <= node < graph.n_nodes or graph.kinds[node] != NodeKind.ENTITY:
            raise BatchError(f"{name} node {node} of {graph!r} is not an entity")
    node = graph.n_nodes
    edges = np.array([[head, node], [node, tail]], np.int32)
    edge_kinds = np.array([EdgeKind.ENTITY_RELATION, EdgeKind.RELATION_ENTITY], np.uint8)
    return dataclasses.replace(
        graph,
        kinds=np.append(graph.kinds, np.uint8(NodeKind.RELATION)),
        ids=np.append(graph.ids, np.int32(relation)),
        positions=np.append(graph.positions, graph.positions[head] + 1).astype(np.int32),
        segments=np.append(graph.segments, graph.segments[head]),
        spans=np.vstack([graph.spans, np.full((1, 2), -1, np.int32)]),
        origins=np.vstack([graph.origins, np.array([[graph.origins[head, 0], -1, -1]], np.int32)]),
        edges=np.vstack([graph.edges, edges]),
        edge_kinds=np.append(graph.edge_kinds, edge_kinds),
        edge_weights=np.append(graph.edge_weights, np.ones(2, np.float32)),
    )
