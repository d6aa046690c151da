"""Ids of further vocabularies for the words of a text: senses, polarities, parts of speech.

Axis legend: word (word pieces), stretch, slot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entity_linking.alignment import pieces_of_all
from kept.batches import NONE
from kept.graphs.graph import NodeKind, WordKnowledgeGraph


@dataclass(frozen=True, slots=True)
class Stretch:
    """The ids that characters `start` to `end` (exclusive) of a text have in a vocabulary."""

    start: int
    end: int
    ids: tuple[int, ...]


class Annotator(ABC):
    """Abstract: says what ids the words of a text have in one vocabulary. Must pickle cheaply.

    It finds the words itself, so a stretch may be a word, a phrase or a whole text.
    """

    @abstractmethod
    def __call__(self, text: str) -> Sequence[Stretch]:
        """The stretches of `text` that have ids, in any order; they may overlap."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever an id could."""


def extra_ids(graph: WordKnowledgeGraph, annotators: Mapping[str, Annotator]) -> dict[str, Tensor]:
    """By name of a vocabulary the ids of the words of `graph`, `[1 word slot]`, as in a batch.

    A word piece has the ids of every stretch that it shares a character with, in the annotator's
    order, each once; special pieces have none. There is one slot at least.
    """
    return {
        name: stretch_ids(graph, annotator(graph.text)) for name, annotator in annotators.items()
    }


def stretch_ids(graph: WordKnowledgeGraph, stretches: Sequence[Stretch]) -> Tensor:
    """The ids that `stretches` of the text give to its words, `[1 word slot]`, as `extra_ids`."""
    spans = graph.spans[graph.kinds == NodeKind.WORD]
    return torch.from_numpy(_slots(spans, stretches))[None]


def _slots(spans: NDArray[np.int32], stretches: Sequence[Stretch]) -> NDArray[np.int64]:
    """`[word slot]`, `NONE` where a word has fewer ids than the one with most."""
    found: list[dict[int, None]] = [{} for _ in spans]
    places = np.array([(each.start, each.end) for each in stretches], np.int64).reshape(-1, 2)
    for each, (start, stop) in zip(stretches, pieces_of_all(spans, places).tolist(), strict=True):
        for word in range(start, stop):
            found[word].update(dict.fromkeys(each.ids))
    slots = np.full((len(spans), max([1, *map(len, found)])), NONE, np.int64)
    for word, ids in enumerate(found):
        slots[word, : len(ids)] = list(ids)
    return slots
