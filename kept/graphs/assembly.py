"""Laying words, anchors and facts out as one `WordKnowledgeGraph`: the last step of every builder.

Axis legend: word (word pieces), anchor, fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.words import Ids, Segments, Words
from kg_loaders.store import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class Anchors:
    """Anchors of one text, all `[anchor]`: entity, soft position, index of the link; spans."""

    ids: Ids
    positions: Ids
    spans: Ids
    links: Ids


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts shown, all `[fact]`: row in `graph.triples`, the anchor that brings it, its rank."""

    rows: NDArray[np.int64]
    anchors: NDArray[np.int64]
    ranks: NDArray[np.int64]

    def __getitem__(self, index: NDArray[Any]) -> Facts:
        return Facts(self.rows[index], self.anchors[index], self.ranks[index])

    def __len__(self) -> int:
        return len(self.rows)


def far_ends(graph: KnowledgeGraph, anchors: Ids, facts: Facts) -> tuple[Ids, NDArray[np.bool_]]:
    """`[fact]`: the entity at the far end of each fact, and whether the anchor is its head."""
    triples = graph.triples[facts.rows]
    is_head = triples[:, 0] == anchors[facts.anchors]
    return np.where(is_head, triples[:, 2], triples[:, 0]).astype(np.int32), is_head


def connect(
    linked: LinkedText,
    words: Words,
    positions: Ids,
    anchors: Anchors,
    facts: Facts,
    graph: KnowledgeGraph,
    *,
    mention_pieces: NDArray[np.int64] | None = None,
) -> WordKnowledgeGraph:
    """Lay words, anchors and facts out as one graph.

    `mention_pieces [anchor 2]` are the words of each anchor when they are kept beside it.
    """
    n_words, n_anchors, n_facts = len(words.ids), len(anchors.ids), len(facts)
    others, is_head = far_ends(graph, anchors.ids, facts)
    far, new = _number(anchors.ids, others)
    far, near = n_words + far, n_words + facts.anchors
    n_entities = n_anchors + len(new)
    relation = n_words + n_entities + np.arange(n_facts)
    edges = np.empty((n_facts, 2, 2), np.int32)
    edges[:, 0, 0], edges[:, 0, 1] = np.where(is_head, near, far), relation
    edges[:, 1, 0], edges[:, 1, 1] = relation, np.where(is_head, far, near)
    kinds = np.tile(
        np.array([EdgeKind.ENTITY_RELATION, EdgeKind.RELATION_ENTITY], np.uint8), n_facts
    )
    mention_edges, weights = _mention_edges(linked, anchors, mention_pieces, n_words)
    origins = np.full((n_words + n_entities + n_facts, 3), -1, np.int32)
    origins[n_words : n_words + n_anchors, 0] = anchors.links
    fact_origins = np.stack([anchors.links[facts.anchors], facts.rows, facts.ranks], axis=1)
    origins[n_words + n_anchors :] = np.concatenate([fact_origins[new], fact_origins])
    fact_positions = anchors.positions[facts.anchors]
    spans = np.full((len(origins), 2), -1, np.int32)
    spans[:n_words], spans[n_words : n_words + n_anchors] = words.spans, anchors.spans
    return WordKnowledgeGraph(
        text=linked.text,
        links=linked.links,
        kinds=np.repeat(np.array(list(NodeKind), np.uint8), [n_words, n_entities, n_facts]),
        ids=np.concatenate([words.ids, anchors.ids, others[new], graph.triples[facts.rows, 1]]),
        positions=np.concatenate(
            [positions, anchors.positions, fact_positions[new] + 2, fact_positions + 1]
        ).astype(np.int32),
        segments=_segments(linked, words, anchors, facts, new),
        spans=spans,
        origins=origins,
        edges=np.concatenate([mention_edges, edges.reshape(-1, 2)]),
        edge_kinds=np.concatenate(
            [np.full(len(mention_edges), EdgeKind.MENTION_ENTITY, np.uint8), kinds]
        ),
        edge_weights=np.concatenate([weights, np.ones(2 * n_facts, np.float32)]),
        id_space_hash=graph.id_space_hash,
    )


def _segments(
    linked: LinkedText, words: Words, anchors: Anchors, facts: Facts, new: NDArray[np.int64]
) -> Segments:
    """`[node]`: of words their own; anchors and what they bring are of the text they stand in."""
    in_second = np.zeros(len(anchors.ids), np.uint8)
    if linked.pair_start is not None:
        in_second[anchors.spans[:, 0] >= linked.pair_start] = 1
    brought = in_second[facts.anchors]
    return np.concatenate([words.segment_ids, in_second, brought[new], brought])


def _number(anchors: Ids, others: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Entity node of every far end, and the facts that bring an entity not yet in the graph.

    An entity keeps the node of its first anchor, else a new one in order of first appearance.
    """
    n_anchors = len(anchors)
    _, first, inverse = np.unique(
        np.concatenate([anchors, others]), return_index=True, return_inverse=True
    )
    new = np.sort(first[first >= n_anchors])
    node_of_first = np.arange(n_anchors + len(others))
    node_of_first[new] = n_anchors + np.arange(len(new))
    return node_of_first[first[inverse[n_anchors:]]], new - n_anchors


def _mention_edges(
    linked: LinkedText, anchors: Anchors, pieces: NDArray[np.int64] | None, n_words: int
) -> tuple[Ids, NDArray[np.float32]]:
    """Edges from kept mention words to their anchor, weighted by the link's confidence."""
    if pieces is None or not len(pieces):
        return np.zeros((0, 2), np.int32), np.zeros(0, np.float32)
    edges = [
        (word, n_words + anchor)
        for anchor, (start, stop) in enumerate(pieces.tolist())
        for word in range(start, stop)
    ]
    confidence = [linked.links[link].confidence for link in anchors.links]
    weights = np.repeat(np.array(confidence, np.float32), pieces[:, 1] - pieces[:, 0])
    return np.array(edges, np.int32), weights
