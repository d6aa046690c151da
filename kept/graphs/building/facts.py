"""Which facts the anchors of several texts bring.

Axis legend: text, anchor and fact (of all texts), triple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kept.graphs.building.anchors import Anchors
from kept.graphs.building.config import BuilderConfig, Exclusion, RequiredFacts
from kept.graphs.words import Ids
from kg_loaders.neighbours import Policy, neighbours
from kg_loaders.store import KnowledgeGraph

Rows = NDArray[np.int64]
HUB = 100_000
"""Facts beyond which `max_neighbours` of them are drawn before any is looked at."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts shown, in order of texts, all `[fact]`: row in `graph.triples`, the anchor that brings
    it, its rank among the anchor's facts."""

    rows: Rows
    anchors: Rows
    ranks: Rows

    def __getitem__(self, index: NDArray[Any]) -> Facts:
        return Facts(self.rows[index], self.anchors[index], self.ranks[index])

    def __len__(self) -> int:
        return len(self.rows)


def far_ends(graph: KnowledgeGraph, anchors: Ids, facts: Facts) -> tuple[Ids, NDArray[np.bool_]]:
    """`[fact]`: the entity at the far end of each fact, and whether the anchor is its head."""
    triples = graph.triples[facts.rows]
    is_head = triples[:, 0] == anchors[facts.anchors]
    return np.where(is_head, triples[:, 2], triples[:, 0]).astype(np.int32), is_head


def choose(
    graph: KnowledgeGraph,
    anchors: Anchors,
    generators: Sequence[np.random.Generator],
    config: BuilderConfig,
    limits: Sequence[tuple[Exclusion | None, RequiredFacts | None]],
) -> Facts:
    """The facts of every anchor, in anchor order and best first, each at most once a text.

    `generators` and `limits` (what must not be shown, what must) are those of the texts.
    """
    rows: list[Rows] = []
    ranks: list[Rows] = []
    bounds = np.searchsorted(anchors.texts, np.arange(len(generators) + 1)).tolist()
    for text, (generator, (exclude, insist)) in enumerate(zip(generators, limits, strict=True)):
        entities = anchors.ids[bounds[text] : bounds[text + 1]]
        if not len(entities):
            continue
        draw = _Draw(graph, config, config.ranker(graph, entities), generator, exclude, insist)
        used: set[int] = set()
        for entity in entities.tolist():
            fact_rows, positions = _NOTHING if entity in used else draw.facts_of(entity)
            used.add(entity)
            rows.append(fact_rows)
            ranks.append(positions)
    if not rows:
        return Facts(*(np.zeros(0, np.int64) for _ in range(3)))
    owners = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    facts = Facts(np.concatenate(rows), owners, np.concatenate(ranks))
    if config.directions == "head":
        return facts
    _, first = np.unique(anchors.texts[owners] * graph.n_triples + facts.rows, return_index=True)
    return facts[np.sort(first)]


_NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class _Draw:
    """How the facts of one text are chosen."""

    graph: KnowledgeGraph
    config: BuilderConfig
    rank: Policy
    generator: np.random.Generator
    exclude: Exclusion | None
    insist: RequiredFacts | None

    def facts_of(self, entity: int) -> tuple[Rows, Rows]:
        """Rows of the triples of an anchor that are shown, and the rank of each."""
        config = self.config
        is_free = self.exclude is None and self.insist is None
        is_random = config.policy == "random" and is_free
        start, stop = self.graph.out_offsets[entity : entity + 2].tolist()
        n_facts = stop - start
        if config.directions == "both":
            n_facts += int(np.diff(self.graph.in_offsets[entity : entity + 2])[0])
        if is_random and n_facts > HUB:
            candidates = self._sample(entity)
        elif is_random and config.directions == "head":
            if not n_facts:
                return _NOTHING
            order = self.generator.permutation(n_facts)[: config.max_neighbours]
            return self._kept(order + start)
        else:
            candidates = _candidate_rows(self.graph, entity, config.directions)
            if self.exclude is not None:
                candidates = candidates[self.exclude.keeps(self.graph.triples[candidates])]
        if not len(candidates):
            return _NOTHING
        order = self.rank(self.graph, self.graph.triples[candidates], self.generator)
        rows = candidates[order]
        if self.insist is not None:
            rows = self.insist.order(rows, self.generator)
        return self._kept(rows)

    def _kept(self, rows: Rows) -> tuple[Rows, Rows]:
        """Those of the facts, best first, that survive dropping, and their ranks."""
        config = self.config
        rows = rows[: config.max_neighbours]
        n = len(rows)
        if not config.drop_probability:
            return rows, np.arange(n)
        if config.drop == "anchor":
            kept = np.arange(n if self.generator.random() >= config.drop_probability else 0)
        else:
            kept = np.flatnonzero(self.generator.random(n) >= config.drop_probability)
        if self.insist is not None:
            kept = np.union1d(kept, np.flatnonzero(np.isin(rows, self.insist.rows)))
        return rows[kept], kept

    def _sample(self, entity: int) -> Rows:
        rows, _ = neighbours(
            self.graph,
            np.array([entity], np.int32),
            self.config.max_neighbours,
            policy="random",
            generator=self.generator,
            directions="both" if self.config.directions == "both" else "out",
        )
        return rows


def _candidate_rows(
    graph: KnowledgeGraph, entity: int, directions: Literal["head", "both"]
) -> Rows:
    out = np.arange(graph.out_offsets[entity], graph.out_offsets[entity + 1])
    if directions == "head":
        return out
    into = graph.in_order[graph.in_offsets[entity] : graph.in_offsets[entity + 1]]
    return np.concatenate([out, into[graph.triples[into, 0] != entity]])


def with_facts(anchors: Anchors, facts: Facts, graph: KnowledgeGraph) -> tuple[Anchors, Facts]:
    """The anchors whose entity brings a fact in their text, and the facts by those' numbers."""
    entities = anchors.texts * graph.n_entities + anchors.ids
    stay = np.isin(entities, entities[facts.anchors])
    numbers = np.cumsum(stay) - 1
    return anchors[stay], Facts(facts.rows, numbers[facts.anchors], facts.ranks)


def fit(graph: KnowledgeGraph, anchors: Anchors, facts: Facts, n_free: Rows) -> Facts:
    """Keep the best-ranked facts of each text whose nodes fit into its `n_free`, `[text]`."""
    texts = anchors.texts[facts.anchors]
    crowded = np.flatnonzero(2 * np.bincount(texts, minlength=len(n_free)) > n_free)
    if not len(crowded):
        return facts
    is_kept = np.ones(len(facts), np.bool_)
    for text in crowded.tolist():
        mine = np.flatnonzero(texts == text)
        entity_ids = anchors.ids[anchors.texts == text]
        first = int(np.searchsorted(anchors.texts, text))
        part = Facts(facts.rows[mine], facts.anchors[mine] - first, facts.ranks[mine])
        is_kept[mine] = False
        is_kept[mine[_fitting(graph, entity_ids, part, int(n_free[text]))]] = True
    return facts[is_kept]


def _fitting(graph: KnowledgeGraph, anchors: Ids, facts: Facts, n_free: int) -> Rows:
    """Indices of the facts of one text that fit; anchors take turns."""
    order = np.lexsort((facts.anchors, facts.ranks))
    others, _ = far_ends(graph, anchors, facts[order])
    _, first = np.unique(np.concatenate([anchors, others]), return_index=True)
    cost = np.ones(len(order), np.int64)
    cost[first[first >= len(anchors)] - len(anchors)] += 1
    n_kept = int(np.searchsorted(np.cumsum(cost), n_free, side="right"))
    return order[:n_kept]
