"""Tables whose columns are in another order than head, relation, tail: what their graph shows.

A table without a header is read in the order head, relation, tail. Some data sets have the tail
second or the relation first. Then most "relations" are also heads or tails, and the column that
holds the real relations has few names, none of which is on the other side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kg_loaders.store import KnowledgeGraph

LEAST_TRIPLES = 10
LEAST_SHARE = 0.5
"""Of the relations that are also entities, in a graph whose columns are in another order."""


def order_notes(graph: KnowledgeGraph) -> list[str]:
    """Return a line that says which order the columns seem to have; nothing for the usual one.

    >>> from kg_loaders import Triple, graph_from_records
    >>> swapped = [Triple(f"Q{i}", f"Q{i * 7 % 20}", f"P{i % 2}") for i in range(20)]
    >>> order_notes(graph_from_records(swapped))[0].partition(":")[0]
    '20 of 20 relations are heads too, and no tail is one'
    """
    if graph.n_triples < LEAST_TRIPLES:
        return []
    heads, tails = _distinct(graph.triples[:, 0]), _distinct(graph.triples[:, 2])
    for few, many, names, order in (
        (tails, heads, ("heads", "tail"), "htr"), (heads, tails, ("tails", "head"), "rht"),
    ):  # fmt: skip
        if len(few) >= graph.n_relations or np.isin(few, many).any():
            continue
        n = _n_named_alike(graph, many)
        if n >= LEAST_SHARE * graph.n_relations:
            note = (
                f"{n:,} of {graph.n_relations:,} relations are {names[0]} too, and no {names[1]} "
                f"is one: the columns seem to be in another order; if so, build with --order "
                f"{order}"
            )
            return [note]
    return []


def _distinct(ids: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.flatnonzero(np.bincount(ids))


def _n_named_alike(graph: KnowledgeGraph, entities: NDArray[np.int64]) -> int:
    """How many relations have the name of one of `entities`."""
    return int(np.isin(graph.entities.ids(list(graph.relations)), entities).sum())
