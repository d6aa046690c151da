"""Laying words, anchors and facts out as `WordKnowledgeGraph`s: the last step of every builder.

All texts of a batch are laid out at once, and each graph is a piece of the common arrays.
Axis legend: text, word, anchor, fact, node and edge (all of all texts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from kept.graphs.building.anchors import AllWords, Anchors
from kept.graphs.building.facts import Facts, far_ends
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kept.graphs.words import Ids, Segments, Words
from kg_loaders.store import KnowledgeGraph

Rows = NDArray[np.int64]


def connect(
    linked: Sequence[LinkedText],
    words: AllWords,
    positions: Ids,
    anchors: Anchors,
    facts: Facts,
    graph: KnowledgeGraph,
    *,
    keeps_mentions: bool = False,
) -> list[WordKnowledgeGraph]:
    """Lay the shown words, `positions [word]`, anchors and facts out as one graph a text.

    With `keeps_mentions` the words of each anchor (`Anchors.pieces`) are shown beside it.
    """
    n_texts, fact_texts = len(linked), anchors.texts[facts.anchors]
    others, is_head = far_ends(graph, anchors.ids, facts)
    ends, new = _number(anchors, others, fact_texts, graph.n_entities)
    owners = [words.texts, anchors.texts, fact_texts[new], fact_texts]
    nodes, offsets = _node_positions(owners, n_texts)
    of_word, of_anchor, of_new, of_fact = np.split(nodes, np.cumsum([*map(len, owners)])[:-1])
    of_end = np.concatenate([of_anchor, np.empty(len(facts), np.int64)])
    of_end[len(of_anchor) + new] = of_new
    edges = _fact_edges(of_anchor[facts.anchors], of_end[ends], of_fact, is_head, fact_texts)
    if keeps_mentions:
        edges = _mention_edges(linked, anchors, of_word, of_anchor).before(edges)
    fact_origins = np.stack([anchors.links[facts.anchors], facts.rows, facts.ranks], axis=1)
    origins = np.full((len(nodes), 3), -1, np.int32)
    origins[of_anchor, 0] = anchors.links
    origins[of_new], origins[of_fact] = fact_origins[new], fact_origins
    spans = np.full((len(nodes), 2), -1, np.int32)
    spans[of_word], spans[of_anchor] = words.spans, anchors.spans
    at_fact = anchors.positions[facts.anchors]
    n_kinds = [len(of_word), len(of_anchor) + len(of_new), len(of_fact)]
    of_nodes: dict[str, NDArray[Any]] = {
        "kinds": _laid(nodes, [np.repeat(_KINDS, n_kinds)]),
        "ids": _laid(nodes, [words.ids, anchors.ids, others[new], graph.triples[facts.rows, 1]]),
        "positions": _laid(nodes, [positions, anchors.positions, at_fact[new] + 2, at_fact + 1]),
        "segments": _laid(nodes, _segments(linked, words, anchors, facts, new)),
        "spans": spans,
        "origins": origins,
    }
    return _split_by_text(linked, graph, of_nodes, offsets, edges)


def of_words(text: LinkedText, words: Words, graph: KnowledgeGraph) -> WordKnowledgeGraph:
    """The graph of a text without links, as `connect` lays it out: its words alone."""
    n = len(words.ids)
    return WordKnowledgeGraph(
        text=text.text,
        links=text.links,
        kinds=np.full(n, NodeKind.WORD, np.uint8),
        ids=words.ids,
        positions=np.arange(n, dtype=np.int32),
        segments=words.segment_ids,
        spans=words.spans,
        origins=np.full((n, 3), -1, np.int32),
        edges=np.empty((0, 2), np.int32),
        edge_kinds=np.empty(0, np.uint8),
        edge_weights=np.empty(0, np.float32),
        id_space_hash=graph.id_space_hash,
    )


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges between nodes of all texts: `ends [edge 2]`, the rest `[edge]`."""

    ends: Rows
    kinds: NDArray[np.uint8]
    weights: NDArray[np.float32]
    texts: Rows

    def before(self, others: _Edges) -> _Edges:
        """These before `others`, in each text."""
        order = np.argsort(np.concatenate([self.texts, others.texts]), kind="stable")
        return _Edges(
            np.concatenate([self.ends, others.ends])[order],
            np.concatenate([self.kinds, others.kinds])[order],
            np.concatenate([self.weights, others.weights])[order],
            np.concatenate([self.texts, others.texts])[order],
        )


_KINDS = np.array(list(NodeKind), np.uint8)
_OF_FACT = np.array([EdgeKind.ENTITY_RELATION, EdgeKind.RELATION_ENTITY], np.uint8)


def _number(anchors: Anchors, others: Ids, fact_texts: Rows, n_entities: int) -> tuple[Rows, Rows]:
    """The far end of every fact, and the facts that bring an entity not yet in their graph.

    An end is the number of an anchor, or (after all anchors) of the fact that brings the entity: it
    keeps the node of its first anchor, else a new one in order of first appearance.
    """
    n_anchors = len(anchors.ids)
    keys = np.concatenate([anchors.texts, fact_texts]) * n_entities
    keys += np.concatenate([anchors.ids, others])
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    ends: Rows = first[inverse[n_anchors:]]
    return ends, np.sort(first[first >= n_anchors]) - n_anchors


def _node_positions(owners: Sequence[Rows], n_texts: int) -> tuple[Rows, Rows]:
    """The place of each item among all nodes, and where the nodes of each text begin, `[text+1]`.

    `owners` are the texts of words, anchors, neighbours and relations, which stand in this order
    in each text.
    """
    counts = np.stack([np.bincount(each, minlength=n_texts) for each in owners], axis=1)
    begins = np.concatenate([[0], np.cumsum(counts.ravel())])
    starts = begins[:-1].reshape(counts.shape)
    earlier = np.cumsum(counts, axis=0) - counts
    positions = [
        np.arange(len(each)) + (starts[:, i] - earlier[:, i])[each] for i, each in enumerate(owners)
    ]
    return np.concatenate(positions), begins[:: len(owners)]


def _laid(nodes: Rows, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """`parts`, one after the other, at the places of their nodes."""
    values = np.concatenate(parts)
    laid = np.empty_like(values)
    laid[nodes] = values
    return laid


def _fact_edges(
    near: Rows, far: Rows, relation: Rows, is_head: NDArray[np.bool_], texts: Rows
) -> _Edges:
    """Two of each fact: from its head to its relation, and on to its tail."""
    n = len(near)
    ends = np.empty((n, 2, 2), np.int64)
    ends[:, 0, 0], ends[:, 0, 1] = np.where(is_head, near, far), relation
    ends[:, 1, 0], ends[:, 1, 1] = relation, np.where(is_head, far, near)
    weights = np.ones(2 * n, np.float32)
    return _Edges(ends.reshape(-1, 2), np.tile(_OF_FACT, n), weights, np.repeat(texts, 2))


def _segments(
    linked: Sequence[LinkedText], words: AllWords, anchors: Anchors, facts: Facts, new: Rows
) -> list[Segments]:
    """Of words their own; anchors and what they bring are of the part of a pair they stand in."""
    starts = [text.pair_start for text in linked]
    in_second = np.zeros(len(anchors.ids), np.uint8)
    if any(start is not None for start in starts):
        begin = np.array([np.iinfo(np.int32).max if s is None else s for s in starts])
        in_second[anchors.spans[:, 0] >= begin[anchors.texts]] = 1
    brought = in_second[facts.anchors]
    return [words.segments, in_second, brought[new], brought]


def _mention_edges(
    linked: Sequence[LinkedText], anchors: Anchors, of_word: Rows, of_anchor: Rows
) -> _Edges:
    """From kept mention words to their anchor, weighted by the link's confidence."""
    starts, stops = anchors.pieces.T
    counts = stops - starts
    pieces = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    ends = np.stack([of_word[pieces], np.repeat(of_anchor, counts)], axis=1)
    anchor_pairs = zip(anchors.texts.tolist(), anchors.links.tolist(), strict=True)
    confidence = np.array(
        [linked[text].links[i].confidence for text, i in anchor_pairs], np.float32
    )
    kinds = np.full(len(ends), EdgeKind.MENTION_ENTITY, np.uint8)
    return _Edges(ends, kinds, np.repeat(confidence, counts), np.repeat(anchors.texts, counts))


def _split_by_text(
    linked: Sequence[LinkedText],
    graph: KnowledgeGraph,
    of_nodes: dict[str, NDArray[Any]],
    offsets: Rows,
    edges: _Edges,
) -> list[WordKnowledgeGraph]:
    """The graph of each text, from the arrays of all; its nodes begin at its offset."""
    ends = (edges.ends - offsets[edges.texts][:, None]).astype(np.int32)
    n_edges = np.bincount(edges.texts, minlength=len(linked))
    node_bounds, edge_bounds = offsets.tolist(), [0, *np.cumsum(n_edges).tolist()]
    graphs = []
    for i, text in enumerate(linked):
        nodes = slice(node_bounds[i], node_bounds[i + 1])
        edges_of_text = slice(edge_bounds[i], edge_bounds[i + 1])
        own_nodes: dict[str, Any] = {name: values[nodes] for name, values in of_nodes.items()}
        graphs.append(
            WordKnowledgeGraph(
                text=text.text,
                links=text.links,
                **own_nodes,
                edges=ends[edges_of_text],
                edge_kinds=edges.kinds[edges_of_text],
                edge_weights=edges.weights[edges_of_text],
                id_space_hash=graph.id_space_hash,
            )
        )
    return graphs
