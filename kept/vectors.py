"""Vectors for a graph's entities from any source, and which entities have one.

A provider is called with a graph; the vectors it returns follow that graph's ids. Here are those
that need no scorer: labels in a host's word pieces, and a file of Wikipedia2Vec (Yamada et al.
2020, "Wikipedia2Vec: An Efficient Toolkit for Learning and Visualizing the Embeddings of Words and
Entities from Wikipedia", EMNLP demonstrations). `kept.kge.vectors` has those of triple scorers.

Axis legend: entity, word, width.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from kept.errors import CheckpointError
from kg_loaders import KnowledgeGraph

ENTITY_PREFIX = "ENTITY/"
LABELS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class EntityVectors:
    """One row per entity of a graph; where `known` is False there is none, and the row is 0."""

    vectors: Float[Tensor, "entity width"]
    known: Bool[Tensor, " entity"]


@dataclass(frozen=True, eq=False)
class LabelVectors:
    """The mean of the word-piece vectors of each entity's best label (or identifier).

    An entity whose label has no piece has no vector.
    """

    words: Float[Tensor, "word width"]
    tokenizer: PreTrainedTokenizerBase

    def __call__(self, graph: KnowledgeGraph) -> EntityVectors:
        vectors = self.words.new_zeros(graph.n_entities, self.words.shape[1])
        known = torch.zeros(graph.n_entities, dtype=torch.bool, device=self.words.device)
        for start in range(0, graph.n_entities, LABELS_AT_ONCE):
            stop = min(start + LABELS_AT_ONCE, graph.n_entities)
            block = self.of(graph, np.arange(start, stop))
            vectors[start:stop], known[start:stop] = block.vectors, block.known
        return EntityVectors(vectors, known)

    def of(self, graph: KnowledgeGraph, entities: NDArray[np.int64]) -> EntityVectors:
        """Those of some entities."""
        names = graph.labels(entities)
        return EntityVectors(*mean_pieces(names, self.words, self.tokenizer))


@dataclass(frozen=True, eq=False)
class FactVectors:
    """The mean of an entity's own vector of `LabelVectors` and those of all that its facts name.

    A fact names its relation and its other entity, whichever end that is. An entity without facts
    has the vector of its label.
    """

    words: Float[Tensor, "word width"]
    tokenizer: PreTrainedTokenizerBase

    def __call__(self, graph: KnowledgeGraph) -> EntityVectors:
        label_vectors = LabelVectors(self.words, self.tokenizer)(graph)
        relations, _ = mean_pieces(
            [graph.relation_label(i) for i in range(graph.n_relations)], self.words, self.tokenizer
        )
        triples = torch.from_numpy(np.array(graph.triples, np.int64))
        heads, kinds, tails = triples.unbind(1)
        total, known = label_vectors.vectors.clone(), label_vectors.known.clone()
        count = label_vectors.known.to(total)
        for ends, others in ((heads, tails), (tails, heads)):
            total.index_add_(0, ends, label_vectors.vectors[others] + relations[kinds])
            count.index_add_(0, ends, label_vectors.known[others].to(total) + 1)
            known[ends] = True
        return EntityVectors(total / count.clamp_min(1)[:, None], known)


def mean_pieces(
    labels: Sequence[str], words: Tensor, tokenizer: PreTrainedTokenizerBase
) -> tuple[Float[Tensor, "entity width"], Bool[Tensor, " entity"]]:
    """The mean vector of each label's word pieces, and which labels have any."""
    pieces = tokenizer(list(labels), add_special_tokens=False)["input_ids"]
    lengths = torch.tensor([len(row) for row in pieces], device=words.device)
    flat = torch.tensor([i for row in pieces for i in row], dtype=torch.long, device=words.device)
    offsets = lengths.cumsum(0) - lengths
    return F.embedding_bag(flat, words, offsets, mode="mean"), lengths > 0


@dataclass(frozen=True)
class Wikipedia2VecFile:
    """Vectors in Wikipedia2Vec's text format: a line "rows width", then a key and its numbers.

    Keys are words and `ENTITY/Title_of_the_page`. A page belongs to the entity whose identifier is
    its title, else to the one whose label is; aliases are not tried, since several pages share one.
    Lines of other keys are skipped, so a file may be far larger than the graph.
    """

    path: Path

    @property
    def width(self) -> int:
        """The width of its vectors; raises `CheckpointError` for another first line."""
        with self._open() as lines:
            return self._header(next(lines, ""))

    def __call__(self, graph: KnowledgeGraph) -> EntityVectors:
        """Raises `CheckpointError` naming the line that is not a key and `width` finite numbers."""
        keys = [_page_keys(graph, entity) for entity in range(graph.n_entities)]
        vectors_of = self.read({key for pair in keys for key in pair})
        vectors = torch.zeros(graph.n_entities, self.width)
        known = torch.zeros(graph.n_entities, dtype=torch.bool)
        for entity, pair in enumerate(keys):
            key = next((key for key in pair if key in vectors_of), None)
            if key is not None:
                vectors[entity], known[entity] = torch.from_numpy(vectors_of[key]), True
        return EntityVectors(vectors, known)

    def words(self, keys: Collection[str]) -> Mapping[str, NDArray[np.float32]]:
        """The vectors of those `keys` that are words of the file."""
        return self.read({word for word in keys if not word.startswith(ENTITY_PREFIX)})

    def read(self, keys: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """Key to vector, of those `keys` that the file has; the first line of a key counts."""
        vectors: dict[str, NDArray[np.float32]] = {}
        with self._open() as lines:
            width = self._header(next(lines, ""))
            for number, line in enumerate(lines, start=2):
                key, _, numbers = line.rstrip().partition(" ")
                if key in keys and key not in vectors:
                    vectors[key] = self._vector(numbers, width, number)
        return vectors

    def _open(self) -> _Lines:
        return _Lines(self.path)

    def _header(self, line: str) -> int:
        fields = line.split()
        if len(fields) != 2 or not all(f.isdecimal() for f in fields) or int(fields[1]) < 1:
            raise CheckpointError(
                f"{self.path}, line 1: {line[:40]!r} is not the number of rows and their width; "
                "give a file in Wikipedia2Vec's text format (wikipedia2vec save-text)"
            )
        return int(fields[1])

    def _vector(self, numbers: str, width: int, line: int) -> NDArray[np.float32]:
        try:
            values = np.array(numbers.split(" "), np.float32)
        except ValueError as error:
            raise CheckpointError(f"{self.path}, line {line}: {error}; save it again") from error
        if len(values) != width or not np.isfinite(values).all():
            raise CheckpointError(
                f"{self.path}, line {line}: {len(values)} numbers, all finite: "
                f"{bool(np.isfinite(values).all())}; {width} finite ones are expected; save "
                f"it again"
            )
        return values


class _Lines:
    """The lines of a text file, with one error for whatever keeps it from being read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Iterator[str]:
        try:
            self._stream = self.path.open(encoding="utf-8", newline="\n")
        except OSError as error:
            raise CheckpointError(f"{self.path} cannot be read: {error.strerror}") from error
        return iter(self._stream)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stream.close()
        if isinstance(error, UnicodeDecodeError):
            raise CheckpointError(f"{self.path} is not text in UTF-8: {error}") from error


def _page_keys(graph: KnowledgeGraph, entity: int) -> tuple[str, str]:
    names = graph.entities.name(entity), graph.label(entity)
    first, second = (ENTITY_PREFIX + name.replace(" ", "_") for name in names)
    return first, second
