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

from kept.graphs.coverage import has_fact
from kept.inputs.flat_texts import linked_entities
from kept.tasks.datasets.example import TaskExample
from kept.training.finetuning.data import exclusion
from kg_loaders import KnowledgeGraph

Mask = NDArray[np.bool_]
FACT, BARE, NOTHING, NO_FACT = "a fact", "an entity without a fact", "no entity", "no fact"
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


def item_traits(
    examples: Sequence[TaskExample], train: Sequence[TaskExample], graph: KnowledgeGraph
) -> list[ItemTraits]:
    """Of each item of `examples`; `graph` is the one that methods with true knowledge read."""
    into = np.diff(graph.in_offsets)
    degrees = np.diff(graph.out_offsets) + into
    training_entities = set(linked_entities([e.linked for e in train], graph)[0].tolist())
    entities, offsets = linked_entities([e.linked for e in examples], graph)
    traits = []
    for i, example in enumerate(examples):
        entity_ids = [int(e) for e in entities[offsets[i] : offsets[i + 1]] if e >= 0]
        hidden = exclusion(example, graph)
        mentions = example.targets or [link.mention for link in example.linked.links]
        texts = [example.linked.text[m.start : m.end] for m in mentions]
        traits.append(
            ItemTraits(
                has_entity=bool(entity_ids),
                has_fact=any(has_fact(graph, e, degrees, hidden) for e in entity_ids),
                degree=int(max((degrees[e] for e in entity_ids), default=0)),
                popularity=int(max((into[e] for e in entity_ids), default=0)),
                is_seen=training_entities.issuperset(entity_ids),
                n_words=max((len(text.split()) for text in texts), default=0),
            )
        )
    return traits


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
        KNOWLEDGE: {FACT: fact, BARE: has_entity & ~fact, NOTHING: ~has_entity},
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
