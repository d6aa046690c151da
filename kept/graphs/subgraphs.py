"""The part of a graph that is read with a text: its linked entities, and what lies between them.

Yasunaga et al. 2021, "QA-GNN" (NAACL), section 3.1, and Feng et al. 2020, "Scalable Multi-Hop
Relational Reasoning for Knowledge-Aware Question Answering" (EMNLP), whose retrieval it takes over.
Neighbours are those of either direction; an entity is not a neighbour of itself.

Axis legend: entity, edge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from kept.graphs.graph import Hidden
from kg_loaders import KnowledgeGraph

Neighbours = Callable[[int], frozenset[int]]


def neighbours_in(
    graph: KnowledgeGraph, *, without: Collection[int] = (), hidden: Hidden | None = None
) -> Neighbours:
    """Return a function from an entity to all that a triple joins it with.

    Triples of the relations in `without`, and `hidden` ones, do not count. Answers are kept for the
    next call.
    """
    answers: dict[int, frozenset[int]] = {}

    def neighbours(entity: int) -> frozenset[int]:
        if entity not in answers:
            out, into = (
                triples if hidden is None else triples[hidden.keeps(triples)]
                for triples in (graph.outgoing(entity), graph.incoming(entity))
            )
            ends = np.concatenate([out[:, [1, 2]], into[:, [1, 0]]])
            ends = ends[~np.isin(ends[:, 0], [*without])]
            answers[entity] = frozenset(ends[:, 1].tolist()) - {entity}
        return answers[entity]

    return neighbours


def in_common(pairs: Iterable[tuple[int, int]], neighbours: Neighbours) -> set[int]:
    """The neighbours that both ends of a pair have, over all pairs of two entities."""
    common: set[int] = set()
    for one, other in pairs:
        if one != other:
            common |= neighbours(one) & neighbours(other)
    return common


def between_all(question: Collection[int], answer: Collection[int], near: Neighbours) -> set[int]:
    """What any two linked entities have in common: paths of two hops. The papers' choice."""
    return in_common(combinations(sorted({*question, *answer}), 2), near)


def between_question_and_answer(
    question: Collection[int], answer: Collection[int], near: Neighbours
) -> set[int]:
    """What an entity of the question and one of the answer have in common."""
    return in_common(product(question, answer), near)


def two_steps(question: Collection[int], answer: Collection[int], near: Neighbours) -> set[int]:
    """`between_question_and_answer`, and what entities of either text have in common with these."""
    first = between_question_and_answer(question, answer, near)
    middle = first - {*question, *answer}
    return (
        first
        | in_common(product(middle, answer), near)
        | in_common(product(question, middle), near)
    )


def three_hops(question: Collection[int], answer: Collection[int], near: Neighbours) -> set[int]:
    """What lies on a path of two or three hops between an entity of either text."""
    on_paths = between_question_and_answer(question, answer, near)
    for one, other in product(question, answer):
        if one == other:
            continue
        ends = near(other)
        for first in near(one):
            second = near(first) & ends
            if second:
                on_paths |= {first, *second}
    return on_paths


def all_neighbours(
    question: Collection[int], answer: Collection[int], near: Neighbours
) -> set[int]:
    """Every neighbour of a linked entity."""
    return set().union(*(near(entity) for entity in {*question, *answer}))


EXTRAS: Mapping[str, Callable[[Collection[int], Collection[int], Neighbours], set[int]]] = {
    "common": between_all,
    "common_of_both": between_question_and_answer,
    "two_steps": two_steps,
    "three_hops": three_hops,
    "neighbours": all_neighbours,
}
"""Which entities a subgraph has beside the linked ones, by name."""


def edges_among(
    graph: KnowledgeGraph, entities: NDArray[np.int64], *, hidden: Hidden | None = None
) -> NDArray[np.int64]:
    """Every triple among `entities`, but for `hidden` ones, as `edges_of` has them."""
    rows = [graph.outgoing(int(entity)) for entity in entities]
    triples = np.concatenate([np.zeros((0, 3), np.int32), *rows])
    if hidden is not None:
        triples = triples[hidden.keeps(triples)]
    return edges_of(triples, entities)


def edges_of(triples: NDArray[np.int32], entities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of `triples` among `entities` as `[edge 3]`: place of the head, relation, of the tail.

    By relation, then head, then tail, each once; a loop is not an edge.
    """
    if not len(triples) or not len(entities):
        return np.zeros((0, 3), np.int64)
    order = np.argsort(entities)
    known = entities[order]
    rows = np.unique(triples.astype(np.int64), axis=0)
    ends = rows[:, [0, 2]]
    at = np.minimum(np.searchsorted(known, ends), len(known) - 1)
    inside = (known[at] == ends).all(1) & (ends[:, 0] != ends[:, 1])
    places = order[at]
    edges = np.stack([places[:, 0], rows[:, 1], places[:, 1]], axis=1)[inside]
    by_relation: NDArray[np.int64] = edges[np.lexsort((edges[:, 2], edges[:, 0], edges[:, 1]))]
    return by_relation
