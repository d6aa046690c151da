"""Changes to a finished `WordKnowledgeGraph`.

Axis legend: node, edge.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

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


def add_fact(
    graph: WordKnowledgeGraph, *, head: int, relation: int, tail: int
) -> WordKnowledgeGraph:
    """A new fact of entity node `head`: its last two nodes are entity `tail` and the relation.

    `relation` and `tail` are ids. They stand where CoLAKE puts them: the relation one position
    after the head, the tail two. Raises `BatchError` where `head` is not an entity node.
    """
    if not 0 <= head < graph.n_nodes or graph.kinds[head] != NodeKind.ENTITY:
        raise BatchError(f"head node {head} of {graph!r} is not an entity")
    grown = dataclasses.replace(
        graph,
        kinds=np.append(graph.kinds, np.uint8(NodeKind.ENTITY)),
        ids=np.append(graph.ids, np.int32(tail)),
        positions=np.append(graph.positions, graph.positions[head] + 2).astype(np.int32),
        segments=np.append(graph.segments, graph.segments[head]),
        spans=np.vstack([graph.spans, np.full((1, 2), -1, np.int32)]),
        origins=np.vstack([graph.origins, np.array([[graph.origins[head, 0], -1, -1]], np.int32)]),
    )
    return add_relation(grown, head=head, tail=graph.n_nodes, relation=relation)


def without_fact(graph: WordKnowledgeGraph, relation: int) -> WordKnowledgeGraph:
    """`graph` without the fact whose relation is node `relation`, and what it alone brought.

    Other nodes keep kind, id, position and origin; they are numbered anew. Raises `BatchError`
    where the node is not a relation.
    """
    return _without_nodes(graph, nodes_of_fact(graph, relation))


def nodes_of_fact(graph: WordKnowledgeGraph, relation: int) -> NDArray[np.int64]:
    """Node `relation`, and the entities that are there for its fact alone, `[node]`.

    An entity that another fact or a mention holds is not. Raises `BatchError` where the node is no
    relation.
    """
    if not 0 <= relation < graph.n_nodes or graph.kinds[relation] != NodeKind.RELATION:
        raise BatchError(f"node {relation} of {graph!r} is not a relation")
    is_of_fact = (graph.edges == relation).any(axis=1)
    ends = np.setdiff1d(graph.edges[is_of_fact], [relation])
    is_linked = np.isin(ends, graph.edges[~is_of_fact]) | (graph.spans[ends, 0] >= 0)
    return np.append(ends[~is_linked], relation).astype(np.int64)


def with_object(graph: WordKnowledgeGraph, row: int, entity: int) -> WordKnowledgeGraph:
    """`graph` where the object of the fact that came of triple `row` is another entity.

    Its node stands for the other entity in every fact that names it. A graph that does not show the
    fact stays as it is. Raises `BatchError` where the object is a mention of the text.
    """
    is_fact = (graph.kinds == NodeKind.RELATION) & (graph.origins[:, 1] == row)
    leads = graph.edge_kinds == EdgeKind.RELATION_ENTITY
    objects = graph.edges[leads & np.isin(graph.edges[:, 0], np.flatnonzero(is_fact)), 1]
    if (graph.spans[objects, 0] >= 0).any():
        raise BatchError(f"the object of triple {row} is a mention of the text; unlink it first")
    ids = graph.ids.copy()
    ids[objects] = entity
    return dataclasses.replace(graph, ids=ids)


def _without_nodes(graph: WordKnowledgeGraph, removed: NDArray[np.int64]) -> WordKnowledgeGraph:
    stays = np.ones(graph.n_nodes, np.bool_)
    stays[removed] = False
    number = np.cumsum(stays, dtype=np.int32) - 1
    kept = stays[graph.edges].all(axis=1)
    return dataclasses.replace(
        graph,
        **{name: getattr(graph, name)[stays] for name in _OF_NODES},
        edges=number[graph.edges[kept]],
        edge_kinds=graph.edge_kinds[kept],
        edge_weights=graph.edge_weights[kept],
    )


_OF_NODES = ("kinds", "ids", "positions", "segments", "spans", "origins")
