"""Ids of further vocabularies for the words of a text: senses, polarities, parts of speech.

Axis legend: word (word pieces), slot.
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
class Annotation:
    """The ids that characters `start` to `end` (exclusive) of a text have in a vocabulary."""

    start: int
    end: int
    ids: tuple[int, ...]


class Annotator(ABC):
    """Abstract: says what ids the words of a text have in one vocabulary. Must pickle cheaply.

    It finds the words itself, so an annotation may cover a word, a phrase or a whole text.
    """

    @abstractmethod
    def __call__(self, text: str) -> Sequence[Annotation]:
        """Return the annotations of `text`, in any order; they may overlap."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever an id could."""


def extra_ids(graph: WordKnowledgeGraph, annotators: Mapping[str, Annotator]) -> dict[str, Tensor]:
    """By name of a vocabulary the ids of the words of `graph`, `[1 word slot]`, as in a batch.

    A word piece has the ids of every annotation that it shares a character with, in the annotator's
    order, each once; special pieces have none. There is one slot at least.
    """
    return {
        name: annotation_ids(graph, annotator(graph.text)) for name, annotator in annotators.items()
    }


def annotation_ids(graph: WordKnowledgeGraph, annotations: Sequence[Annotation]) -> Tensor:
    """Return the ids of the words by `annotations`, `[1 word slot]`, as `extra_ids`."""
    spans = graph.spans[graph.kinds == NodeKind.WORD]
    return torch.from_numpy(_slots(spans, annotations))[None]


def _slots(spans: NDArray[np.int32], annotations: Sequence[Annotation]) -> NDArray[np.int64]:
    """`[word slot]`, `NONE` where a word has fewer ids than the one with most."""
    ids_of_word: list[dict[int, None]] = [{} for _ in spans]
    bounds = np.array([(each.start, each.end) for each in annotations], np.int64).reshape(-1, 2)
    for each, (start, stop) in zip(annotations, pieces_of_all(spans, bounds).tolist(), strict=True):
        for word in range(start, stop):
            ids_of_word[word].update(dict.fromkeys(each.ids))
    slots = np.full((len(spans), max([1, *map(len, ids_of_word)])), NONE, np.int64)
    for word, ids in enumerate(ids_of_word):
        slots[word, : len(ids)] = list(ids)
    return slots
