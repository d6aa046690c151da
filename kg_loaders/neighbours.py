"""Neighbour policies: which triples of an entity enter a word-knowledge graph.

A policy is a function `(graph, entity, triples, generator) -> order`, where `triples [n 3]` are the
candidates and `order int64 [n]` ranks them best first. `neighbours` applies it to many entities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kg_loaders.store import KnowledgeGraph

Policy = Callable[[KnowledgeGraph, NDArray[np.int32], np.random.Generator], NDArray[np.int64]]


def file_order(
    graph: KnowledgeGraph, triples: NDArray[np.int32], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Stored order: by relation id, then tail id."""
    return np.arange(len(triples))


def random_order(
    graph: KnowledgeGraph, triples: NDArray[np.int32], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Uniformly shuffled by `generator`."""
    return generator.permutation(len(triples))


def by_degree(
    graph: KnowledgeGraph, triples: NDArray[np.int32], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Best-connected tails first; ties by (relation id, tail id)."""
    tails = triples[:, 2]
    degree = (graph.out_offsets[tails + 1] - graph.out_offsets[tails]) + (
        graph.in_offsets[tails + 1] - graph.in_offsets[tails]
    )
    return np.lexsort((tails, triples[:, 1], -degree))


POLICIES: dict[str, Policy] = {"file": file_order, "random": random_order, "degree": by_degree}
