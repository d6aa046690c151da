"""A batch cut into shares, one for each of several processes that train on it together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kept.batches.batch import KnowledgeBatch, TripleBatch


class Share(NamedTuple):
    """A process's part of a batch. Where `is_spare`, there was none left for it: what it holds is
    another's, to go through the same steps, and must not count."""

    batch: KnowledgeBatch
    is_spare: bool = False


def share_of(batch: KnowledgeBatch, sizes: Sequence[int], rank: int, n: int) -> Share:
    """Return the share of process `rank` of `n`: consecutive samples, and triples.

    `sizes`: the rows of each sample, which stay together; a batch of other length, as an objective
    makes them, is cut anywhere. What belongs to the whole batch (sampled entities) is in every
    share. All shares together hold each sample and each triple once.
    """
    if sum(sizes) != len(batch):
        sizes = [1] * len(batch)
    is_spare = rank >= len(sizes)
    rank, n = (0 if is_spare else rank), min(n, len(sizes))
    ends = [0, *torch.tensor(sizes).cumsum(0).tolist()]
    rows = slice(*(ends[place * len(sizes) // n] for place in (rank, rank + 1)))
    triples = {
        name: _triples(whole, rank, n)
        for name in ("triples", "second_triples")
        if (whole := getattr(batch, name)) is not None
    }
    return Share(batch.take(rows).replace(**triples), is_spare)


def _triples(triples: TripleBatch, rank: int, n: int) -> TripleBatch:
    """The triples of one share, and of the texts those that they read; one at least, to be read."""
    chosen = slice(*(place * len(triples) // n for place in (rank, rank + 1)))
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
