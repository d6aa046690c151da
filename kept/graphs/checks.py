"""What must hold in every `WordKnowledgeGraph`, and a report of what does not.

Codes: G101 shapes · G102 another graph's ids · G103 id outside the graph · G104 node order ·
G105 anchor without span or link · G106 span outside the text · G107 positions · G108 origin of an
injected node · G109 edges of a relation node · G110 a fact the graph does not hold · G111 an
excluded fact · G112 visibility · G113 mention edges · G114 segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kept.graphs.builder import Exclusion
from kept.graphs.graph import EdgeKind, NodeKind, WordKnowledgeGraph
from kg_loaders.store import KnowledgeGraph

_SHAPES = {"kinds": (), "ids": (), "positions": (), "segments": (), "spans": (2,), "origins": (3,)}


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken invariant; `node` is -1 when it is about the whole graph."""

    code: str
    node: int
    message: str

    def __str__(self) -> str:
        node = f"node {self.node}: " if self.node >= 0 else ""
        return f"{self.code} {node}{self.message}"


def check(
    built: WordKnowledgeGraph,
    graph: KnowledgeGraph,
    *,
    exclude: Exclusion | None = None,
    visible_mask: NDArray[np.bool_] | None = None,
) -> list[Problem]:
    """Every broken invariant of `built`, in order of code; an empty list means sound.

    `visible_mask [node node]` is a view's mask to check along. After G101 to G103 the rest is not
    looked at, because ids and indices cannot be trusted.
    """
    problems = list(_arrays(built, graph))
    if problems:
        return problems
    problems += [*_nodes(built), *_positions(built), *_facts(built, graph, exclude)]
    problems += _segments(built)
    if visible_mask is not None:
        problems += _visibility(built, visible_mask)
    return sorted(problems, key=lambda problem: (problem.code, problem.node))


def _arrays(built: WordKnowledgeGraph, graph: KnowledgeGraph) -> Iterator[Problem]:
    n = built.n_nodes
    for name, tail in _SHAPES.items():
        if (shape := getattr(built, name).shape) != (n, *tail):
            yield Problem("G101", -1, f"{name} has shape {shape}, not {(n, *tail)}")
    n_edges = len(built.edges)
    for name, shape in (
        ("edges", (n_edges, 2)),
        ("edge_kinds", (n_edges,)),
        ("edge_weights", (n_edges,)),
    ):
        if getattr(built, name).shape != shape:
            yield Problem("G101", -1, f"{name} has shape {getattr(built, name).shape}, not {shape}")
    if n_edges and not (built.edges.min() >= 0 and built.edges.max() < n):
        yield Problem("G101", -1, f"an edge leaves the {n} nodes")
    if built.id_space_hash != graph.id_space_hash:
        hashes = f"{built.id_space_hash[:12]}, this one is {graph.id_space_hash[:12]}"
        yield Problem("G102", -1, f"built with graph {hashes}")
    sizes = {NodeKind.ENTITY: graph.n_entities, NodeKind.RELATION: graph.n_relations}
    for node in range(min(n, len(built.ids))):
        size = sizes.get(NodeKind(int(built.kinds[node])), np.iinfo(np.int32).max)
        if not 0 <= built.ids[node] < size:
            yield Problem("G103", node, f"id {built.ids[node]} is outside [0, {size})")


def _nodes(built: WordKnowledgeGraph) -> Iterator[Problem]:
    kinds, spans = built.kinds.astype(int), built.spans
    rank = 2 * kinds - ((kinds == NodeKind.ENTITY) & (spans[:, 0] >= 0))
    for node in (np.flatnonzero(np.diff(rank) < 0) + 1).tolist():
        yield Problem("G104", node, "order must be words, anchors, neighbours, relations")
    for node, (kind, (start, stop), link) in enumerate(
        zip(kinds.tolist(), spans.tolist(), built.origins[:, 0].tolist(), strict=True)
    ):
        if (start, stop) != (-1, -1) and not 0 <= start <= stop <= len(built.text):
            yield Problem("G106", node, f"span {start}:{stop} of {len(built.text)} characters")
        if kind == NodeKind.RELATION and start >= 0:
            yield Problem("G105", node, "a relation node has a span")
        if kind == NodeKind.ENTITY and start >= 0:
            fits = 0 <= link < len(built.links) and (
                built.links[link].mention.start,
                built.links[link].mention.end,
            ) == (start, stop)
            if not fits:
                yield Problem("G105", node, f"anchor of {start}:{stop} names link {link}")
        if kind == NodeKind.WORD and (built.origins[node] != -1).any():
            yield Problem("G108", node, "a word has an origin")


def _anchors(built: WordKnowledgeGraph) -> dict[int, int]:
    """The anchor node of each link."""
    nodes = np.flatnonzero((built.kinds == NodeKind.ENTITY) & (built.spans[:, 0] >= 0))
    return {int(built.origins[node, 0]): int(node) for node in nodes}


def _positions(built: WordKnowledgeGraph) -> Iterator[Problem]:
    anchors = _anchors(built)
    is_word = built.kinds == NodeKind.WORD
    entity_nodes = set(built.edges[built.edge_kinds == EdgeKind.MENTION_ENTITY, 1].tolist())
    slots = built.positions[is_word].tolist()
    slots += [int(built.positions[node]) for node in anchors.values() if node not in entity_nodes]
    if sorted(slots) != list(range(len(slots))):
        yield Problem(
            "G107", -1, "words and anchors do not fill the positions 0, 1, 2, … once each"
        )
    for source, target in built.edges[built.edge_kinds == EdgeKind.MENTION_ENTITY]:
        if not is_word[source] or int(target) not in anchors.values():
            yield Problem("G113", int(source), "a mention edge joins a word with its anchor")
    for node in np.flatnonzero(~is_word & (built.spans[:, 0] < 0)).tolist():
        link, row, rank = built.origins[node].tolist()
        if link not in anchors or row < 0 or rank < 0:
            yield Problem("G108", node, f"origin {(link, row, rank)} names no anchor or no fact")
            continue
        step = 1 if built.kinds[node] == NodeKind.RELATION else 2
        expected = int(built.positions[anchors[link]]) + step
        if built.positions[node] != expected:
            yield Problem(
                "G107", node, f"position {built.positions[node]}, its anchor + {step} is {expected}"
            )


def _segments(built: WordKnowledgeGraph) -> Iterator[Problem]:
    """Words of the first text, then of the second; what an anchor brings is of its text."""
    segments, starts = built.segments, built.spans[:, 0]
    words = np.flatnonzero(built.kinds == NodeKind.WORD)
    for node in np.flatnonzero(segments > 1).tolist():
        yield Problem("G114", node, f"segment {segments[node]}, not 0 or 1")
    for node in words[1:][np.diff(segments[words].astype(int)) < 0].tolist():
        yield Problem("G114", node, "a word of the first text after one of the second")
    border = starts[(segments > 0) & (starts >= 0)].min(initial=len(built.text))
    for node in np.flatnonzero((starts >= 0) & ((starts >= border) != (segments > 0))).tolist():
        yield Problem("G114", node, f"segment {segments[node]} at character {starts[node]}")
    anchors = _anchors(built)
    for node in np.flatnonzero((built.kinds != NodeKind.WORD) & (starts < 0)).tolist():
        anchor = anchors.get(int(built.origins[node, 0]))
        if anchor is not None and segments[node] != segments[anchor]:
            yield Problem("G114", node, f"segment {segments[node]}, its anchor's differs")


def _facts(
    built: WordKnowledgeGraph, graph: KnowledgeGraph, exclude: Exclusion | None
) -> Iterator[Problem]:
    into = built.edges[built.edge_kinds == EdgeKind.ENTITY_RELATION]
    out = built.edges[built.edge_kinds == EdgeKind.RELATION_ENTITY]
    touched = set(into[:, 0].tolist()) | set(out[:, 1].tolist())
    for node in np.flatnonzero(built.kinds == NodeKind.RELATION).tolist():
        heads, tails = into[into[:, 1] == node, 0], out[out[:, 0] == node, 1]
        if len(heads) != 1 or len(tails) != 1:
            yield Problem(
                "G109", node, f"{len(heads)} heads and {len(tails)} tails, not one of each"
            )
            continue
        fact = np.array([[built.ids[heads[0]], built.ids[node], built.ids[tails[0]]]], np.int32)
        row = int(built.origins[node, 1])
        if not 0 <= row < graph.n_triples or (graph.triples[row] != fact[0]).any():
            yield Problem("G110", node, f"fact {fact[0].tolist()} is not row {row} of the graph")
        if exclude is not None and not exclude.keeps(fact)[0]:
            yield Problem(
                "G111", node, f"fact {fact[0].tolist()} is excluded but in the graph of the text"
            )
    injected = (built.kinds == NodeKind.ENTITY) & (built.spans[:, 0] < 0)
    for node in np.flatnonzero(injected).tolist():
        if node not in touched:
            yield Problem("G109", node, "a neighbour entity without a fact")


def _visibility(built: WordKnowledgeGraph, mask: NDArray[np.bool_]) -> Iterator[Problem]:
    if mask.shape != (built.n_nodes, built.n_nodes):
        yield Problem("G112", -1, f"the mask has shape {mask.shape} for {built.n_nodes} nodes")
        return
    for node in np.flatnonzero(~mask.diagonal()).tolist():
        yield Problem("G112", node, "does not see itself")
    for query, key in np.argwhere(mask & ~mask.T).tolist():
        yield Problem("G112", query, f"sees node {key}, which does not see it")
