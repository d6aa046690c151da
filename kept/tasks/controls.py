"""What knowledge a run is given: the true graph, none, or one whose facts are false.

Axis legend: triple, pair.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from kept.randomness import generator
from kept.tasks.wk_completion import shuffle_objects, without_triples
from kg_loaders import KnowledgeGraph

Knowledge = Literal["true", "off", "shuffled"]
KNOWLEDGE: tuple[Knowledge, ...] = ("true", "off", "shuffled")


def controlled_graph(graph: KnowledgeGraph, knowledge: Knowledge, seed: int) -> KnowledgeGraph:
    """`graph` as it is, without any triple, or with the tails of each relation shuffled."""
    if knowledge == "true":
        return graph
    if knowledge == "off":
        return without_triples(graph)
    return shuffle_objects(graph, generator(seed, "shuffled objects"))


def controlled_text(linked: LinkedText, knowledge: Knowledge) -> LinkedText:
    """With knowledge off the links go too: entities are knowledge."""
    return dataclasses.replace(linked, links=()) if knowledge == "off" else linked


def without_pairs(graph: KnowledgeGraph, pairs: NDArray[np.int32]) -> KnowledgeGraph:
    """`graph` without any triple between the two entities of one of `pairs [pair 2]`."""
    gone = np.isin(_keys(graph.triples[:, [0, 2]], graph), _keys(pairs, graph))
    if not gone.any():
        return graph
    return graph.with_triples(graph.triples[~gone], note="without the pairs that are asked")


def n_joined(graph: KnowledgeGraph, pairs: NDArray[np.int32]) -> int:
    """How many of `pairs [pair 2]` a triple of `graph` joins, in either direction."""
    return int(np.isin(_keys(pairs, graph), _keys(graph.triples[:, [0, 2]], graph)).sum())


def _keys(pairs: NDArray[np.int32], graph: KnowledgeGraph) -> NDArray[np.int64]:
    """One number an unordered pair."""
    ends = np.sort(pairs.reshape(-1, 2).astype(np.int64), axis=1)
    keys: NDArray[np.int64] = ends[:, 0] * graph.n_entities + ends[:, 1]
    return keys
