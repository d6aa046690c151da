"""The texts, the graph and its controls as training data.

Axis legend: text.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from entity_linking.mentions import LinkedText
from kept.batches import KnowledgeBatch
from kept.randomness import generator
from kept.tasks.wk_completion import shuffle_objects, without_triples
from kept.training.wordgraphs import WordGraphData
from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.errors import SourceError

HEADER = ["label", "text_a"]


@dataclass(frozen=True)
class Labelled:
    """Texts with the number of their class, `labels int64 [text]`."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)


def read_labelled(path: Path, classes: Sequence[str]) -> Labelled:
    """A `.tsv` or `.tsv.gz` file of K-BERT's: a header, then a label and a text a line.

    Raises `SourceError` with place and line for a label that is none of `classes`, or a line that
    has other columns.
    """
    open_file = gzip.open if path.suffix == ".gz" else open
    texts, labels = [], []
    with open_file(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            cells = line.rstrip("\r\n").split("\t")
            if number == 1 and cells == HEADER:
                continue
            if len(cells) != 2 or cells[0] not in classes or not cells[1].strip():
                raise SourceError(
                    f"{path}, line {number}: {line[:40]!r} is no label of {list(classes)}, TAB and "
                    "text"
                )
            labels.append(classes.index(cells[0]))
            texts.append(cells[1])
    return Labelled(tuple(texts), np.array(labels, np.int64))


def subset(labelled: Labelled, n: int, *, seed: int, name: str) -> Labelled:
    """`n` of the texts (all, if there are fewer), drawn by `(seed, name)`, in file order."""
    if n >= len(labelled):
        return labelled
    rows = np.sort(generator(seed, name).choice(len(labelled), n, replace=False))
    return Labelled(tuple(labelled.texts[i] for i in rows.tolist()), labelled.labels[rows])


def read_graph(path: Path) -> KnowledgeGraph:
    """The graph of an `.spo` file."""
    graph, _ = load([Source(path, "spo")])
    return graph


def controlled(graph: KnowledgeGraph, knowledge: str, seed: int) -> KnowledgeGraph:
    """The graph as it is ("true"), without triples ("off") or with objects exchanged ("shuffled").

    Objects change places within each relation, so that every subject keeps as many facts.
    """
    if knowledge == "off":
        return without_triples(graph)
    if knowledge == "shuffled":
        return shuffle_objects(graph, generator(seed, "shuffled objects"))
    return graph


class LabelledGraphs:
    """`WordGraphData` with a class for every text."""

    def __init__(self, graphs: WordGraphData, labels: NDArray[np.int64]) -> None:
        self._graphs, self._labels = graphs, labels

    def __len__(self) -> int:
        return len(self._graphs)

    @property
    def fingerprint(self) -> str:
        """Changes when any sample could."""
        return f"{self._graphs.fingerprint} {self._labels.tolist()}"

    def n_nodes(self, index: int) -> int:
        """An upper bound for text `index`."""
        return self._graphs.n_nodes(index)

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """Text `index` with its class."""
        batch = self._graphs.sample(index, epoch=epoch, seed=seed)
        return dataclasses.replace(batch, labels=torch.tensor([int(self._labels[index])]))

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Stacked samples."""
        return self._graphs.collate(samples, epoch=epoch, seed=seed, step=step)


def link_counts(linked: Sequence[LinkedText]) -> dict[str, float]:
    """How much of the texts the graph knows."""
    n_links = [len(text.links) for text in linked]
    return {
        "texts": len(linked),
        "linked_texts": sum(n > 0 for n in n_links),
        "mentions_per_text": float(np.mean(n_links)),
    }
