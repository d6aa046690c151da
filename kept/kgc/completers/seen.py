"""What a completer was trained on, by hashes of names: any other graph can be compared with it.

Axis legend: entity, relation, triple.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.evaluation.ranking import Triples
from kept.kge.splits import Seen
from kg_loaders import KnowledgeGraph

Hashes = NDArray[np.uint64]
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """Sorted 64-bit hashes of the entities, relations and triples of a training."""

    entities: Hashes
    relations: Hashes
    triples: Hashes

    @classmethod
    def of(cls, graph: KnowledgeGraph, triples: Triples) -> TrainedOn:
        """Of training triples `[triple 3]` of a graph."""
        entities, relations = hashes_of(graph.entities), hashes_of(graph.relations)
        rows = np.asarray(triples, np.int64)
        return cls(
            np.unique(entities[rows[:, [0, 2]]]),
            np.unique(relations[rows[:, 1]]),
            np.unique(_triple_hashes(entities, relations, rows)),
        )

    def seen(self, graph: KnowledgeGraph) -> Seen:
        """Which entities and relations of another graph, known by their names, it holds."""
        return Seen(
            np.isin(hashes_of(graph.entities), self.entities),
            np.isin(hashes_of(graph.relations), self.relations),
        )

    def holds(self, graph: KnowledgeGraph, rows: Triples) -> NDArray[np.bool_]:
        """Which triples `[triple 3]` of another graph were trained on, `[triple]`."""
        hashes = _triple_hashes(
            hashes_of(graph.entities), hashes_of(graph.relations), np.asarray(rows)
        )
        return np.isin(hashes, self.triples)

    def tensors(self) -> dict[str, Tensor]:
        """The hashes, as they are stored."""
        return {name: torch.from_numpy(array.view(np.int64)) for name, array in vars(self).items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> TrainedOn:
        """What `tensors` gave."""
        return cls(**{name: tensor.numpy().view(np.uint64) for name, tensor in tensors.items()})


def hashes_of(names: Iterable[str]) -> Hashes:
    """A hash of each name, the same in any process."""
    digests = b"".join(hashlib.blake2b(n.encode(), digest_size=8).digest() for n in names)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _triple_hashes(entities: Hashes, relations: Hashes, rows: Triples) -> Hashes:
    parts = (entities[rows[:, 0]], relations[rows[:, 1]], entities[rows[:, 2]])
    joined = np.zeros(len(rows), np.uint64)
    for part, odd in zip(parts, _ODD, strict=True):
        joined = (joined ^ part) * np.uint64(odd)  # wraps around
        joined ^= joined >> np.uint64(29)
    return joined
