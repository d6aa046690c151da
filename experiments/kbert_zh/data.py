"""Labelled texts with the mentions that a graph's subjects have in them.

Axis legend: text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from entity_linking.mentions import Linker
from kept.randomness import generator
from kept.tasks.datasets.formats import TaskExample, read_tsv
from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError


def read_examples(path: Path, classes: Sequence[str]) -> list[TaskExample]:
    """A `label<TAB>text_a` file of K-BERT's; raises `SourceError` for a label outside `classes`."""
    examples = list(read_tsv(path, DamageReport()))
    for example in examples:
        if example.labels[0] not in classes:
            raise SourceError(
                f"{path}, line {example.linked.id}: label {example.labels[0]!r} is none of "
                f"{list(classes)}"
            )
    return examples


def subset(examples: Sequence[TaskExample], n: int, *, seed: int, name: str) -> list[TaskExample]:
    """`n` of the examples (all, if there are fewer), drawn by `(seed, name)`, in file order."""
    if n >= len(examples):
        return list(examples)
    rows = np.sort(generator(seed, name).choice(len(examples), n, replace=False))
    return [examples[i] for i in rows.tolist()]


def link(examples: Sequence[TaskExample], linker: Linker) -> list[TaskExample]:
    """The same examples with their mentions."""
    linked = linker.link([example.linked.text for example in examples])
    return [
        dataclasses.replace(example, linked=links)
        for example, links in zip(examples, linked, strict=True)
    ]


def read_graph(path: Path) -> KnowledgeGraph:
    """The graph of an `.spo` file."""
    graph, _ = load([Source(path, "spo")])
    return graph


def counts(examples: Sequence[TaskExample]) -> dict[str, float]:
    """How many texts, how often the largest class, and how much of the texts the graph knows."""
    n_links = [len(example.linked.links) for example in examples]
    labels = [example.labels[0] for example in examples]
    return {
        "texts": len(examples),
        "majority": max(map(labels.count, set(labels))) / len(labels),
        "linked_texts": sum(n > 0 for n in n_links),
        "mentions_per_text": float(np.mean(n_links)),
    }
