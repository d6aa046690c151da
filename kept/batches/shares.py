"""A batch cut into shares, one for each of several processes that train on it together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from kept.batches.batch import KnowledgeBatch, TripleBatch


@runtime_checkable
class TrainingBatch(Protocol):
    """What a training step reads."""

    @property
    def node_mask(self) -> Tensor:
        """Which nodes are real: the others are padding."""
        ...

    def __len__(self) -> int: ...

    def to(self, device: torch.device) -> TrainingBatch:
        """The same batch on `device`."""
        ...


Batch = TypeVar("Batch", bound=TrainingBatch, covariant=True)


@dataclass(frozen=True, eq=False)
class Share(Generic[Batch]):
    """A process's part of a batch. Where `is_spare`, there was none left for it: what it holds is
    another's, to go through the same steps, and must not count."""

    batch: Batch
    is_spare: bool = False

    def pin_memory(self) -> Share[Batch]:
        """The same in memory that a GPU can copy from by itself, where the batch can be put there.

        torch's loader calls this.
        """
        pinned = getattr(self.batch, "pin_memory", None)
        return self if pinned is None else Share(pinned(), self.is_spare)


class Part(NamedTuple):
    """Which of `n` samples are a process's own; `is_spare` as of `Share`."""

    samples: slice
    is_spare: bool


def part_of(n_samples: int, rank: int, n: int) -> Part:
    """The consecutive samples of process `rank` of `n`.

    >>> [part_of(3, rank, 2).samples for rank in range(2)], part_of(1, 1, 2)
    ([slice(0, 1, None), slice(1, 3, None)], Part(samples=slice(0, 1, None), is_spare=True))
    """
    is_spare = rank >= n_samples
    rank, n = (0 if is_spare else rank), min(n, n_samples)
    return Part(slice(*(number * n_samples // n for number in (rank, rank + 1))), is_spare)


def share_of(
    batch: KnowledgeBatch, sizes: Sequence[int], rank: int, n: int
) -> Share[KnowledgeBatch]:
    """Return the share of process `rank` of `n`: consecutive samples, and triples.

    `sizes`: the rows of each sample, which stay together; a batch of other length, as an objective
    makes them, is cut anywhere. What belongs to the whole batch (sampled entities) is in every
    share. All shares together hold each sample and each triple once.
    """
    if sum(sizes) != len(batch):
        sizes = [1] * len(batch)
    part, is_spare = part_of(len(sizes), rank, n)
    rank, n = (0 if is_spare else rank), min(n, len(sizes))
    ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    rows = slice(ends[part.start], ends[part.stop])
    triples = {
        name: _triples(whole, rank, n)
        for name in ("triples", "second_triples")
        if (whole := getattr(batch, name)) is not None
    }
    return Share(batch.take(rows).replace(**triples), is_spare)


def _triples(triples: TripleBatch, rank: int, n: int) -> TripleBatch:
    """The triples of one share, and of the texts those that they read; one at least, to be read."""
    chosen = slice(*(number * len(triples) // n for number in (rank, rank + 1)))
    indices = {
        field.name: value[chosen]
        for field in dataclasses.fields(triples)
        if field.name != "texts" and (value := getattr(triples, field.name)) is not None
    }
    of_texts = {name: value for name, value in indices.items() if name != "relations"}
    used: Tensor = torch.unique(torch.cat([value.flatten() for value in of_texts.values()]))
    places = torch.zeros(len(triples.texts), dtype=torch.long)
    places[used] = torch.arange(len(used))
    texts = triples.texts.take(used if len(used) else slice(0, 1))
    moved = {name: places[value] for name, value in of_texts.items()}
    return TripleBatch(texts=texts, **(indices | moved))
