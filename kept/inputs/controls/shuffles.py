"""Graphs without true facts: objects shuffled, or no triple at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kg_loaders import KnowledgeGraph


def shuffle_objects(graph: KnowledgeGraph, generator: np.random.Generator) -> KnowledgeGraph:
    """Control: the tails of each relation are permuted among its triples.

    Degrees and relation counts stay, facts go. Triples that the permutation makes equal are merged.
    """
    triples: NDArray[np.int32] = np.array(graph.triples)
    for relation in range(graph.n_relations):
        rows = np.flatnonzero(triples[:, 1] == relation)
        triples[rows, 2] = triples[generator.permutation(rows), 2]
    return graph.with_triples(triples, note="objects shuffled within each relation")


def without_triples(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Control: the same vocabularies and texts, no triple."""
    return graph.with_triples(np.zeros((0, 3), np.int32), note="all triples removed")
