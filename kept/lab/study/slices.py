"""Slices of the evaluation split, the same for all methods: where facts can help, and where not.

A method can gain from a fact only where there is one; what it gains on samples without an entity is
something else (more steps, more weights, another reading of the text), a placebo. Slices are read
from the data and the graph alone, never from what a method answered.

Axis legend: item (an example of the evaluation split).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
FACT, ENTITY_ALONE, NOTHING, NO_FACT = "a fact", "an entity without a fact", "no entity", "no fact"
KNOWLEDGE = "what the graph says"
N_THIRDS = 3


@dataclass(frozen=True)
class ItemTraits:
    """What slices are made from.

    `has_entity`: a link leads to an entity of the graph; `has_fact`: such an entity stands in a
    triple that the item does not hide. `degree`: the most triples that such an entity stands in;
    `popularity`: the most of which it is the tail. `is_seen`: all such entities are linked in a
    training example, too. `n_words`: of the longest target, else of the longest linked mention.
    """

    has_entity: bool
    has_fact: bool
    degree: int
    popularity: int
    is_seen: bool
    n_words: int


def slices(traits: Sequence[ItemTraits]) -> dict[str, dict[str, Mask]]:
    """By kind and name the items of each slice; only what the graph knows is sliced by it.

    Thirds are of the items with an entity, by value: equal values are never apart.
    """
    has_entity, fact = (
        np.array([getattr(t, name) for t in traits], np.bool_)
        for name in ("has_entity", "has_fact")
    )
    is_seen = np.array([t.is_seen for t in traits], np.bool_)
    words = np.array([t.n_words for t in traits])
    parts = {
        KNOWLEDGE: {FACT: fact, ENTITY_ALONE: has_entity & ~fact, NOTHING: ~has_entity},
        "degree": _thirds([t.degree for t in traits], has_entity),
        "popularity": _thirds([t.popularity for t in traits], has_entity),
        "entities": {
            "all seen in training": has_entity & is_seen,
            "one unseen": has_entity & ~is_seen,
        },
        "mention": {"one word": words == 1, "two words": words == 2, "more words": words > 2},
    }
    return {
        kind: {name: mask for name, mask in labels.items() if mask.any()}
        for kind, labels in parts.items()
    }


def no_fact(strata: Mapping[str, Mask]) -> Mask:
    """Items without a fact, with an entity or without one."""
    masks = [mask for name, mask in strata.items() if name != FACT]
    size = len(next(iter(strata.values())))
    return np.logical_or.reduce(masks) if masks else np.zeros(size, np.bool_)


def _thirds(values: Sequence[int], with_entity: Mask) -> dict[str, Mask]:
    """Items in up to three parts of about equal size; the name says which values."""
    numbers = np.array(values)
    if not with_entity.any():
        return {}
    counts = sorted(Counter(numbers[with_entity].tolist()).items())
    parts: list[list[int]] = [[]]
    n_done, n_all = 0, int(with_entity.sum())
    for value, n in counts:
        if parts[-1] and n_done >= n_all * len(parts) / N_THIRDS:
            parts.append([])
        parts[-1].append(value)
        n_done += n
    return {
        (f"{part[0]}" if len(part) == 1 else f"{part[0]} to {part[-1]}"): with_entity
        & np.isin(numbers, part)
        for part in parts
    }
