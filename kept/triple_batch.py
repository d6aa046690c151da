"""`TripleBatch`: triples whose entities are texts; what a knowledge-embedding loss scores.

Axis legend: triple, negative.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from kept.errors import BatchError

if TYPE_CHECKING:
    from kept.batches import KnowledgeBatch


@dataclass(frozen=True, eq=False)
class TripleBatch:
    """Triples as indices of rows of `texts`, a batch of descriptions; each text is encoded once.

    `relations` are rows of a relation table (graph id + `N_SPECIAL_ROWS`). Negative heads and tails
    replace the head and the tail of their triple. `head_partners[t]` is the text that stands for
    the head when the tail (or its negatives) is scored, `tail_partners[t]` the one that stands for
    the tail; absent means `heads` and `tails` (KEPLER-Cond puts the relation's description there).
    `relation_texts`: texts of the relations (KEPLER-Rel), instead of the table.
    """

    texts: KnowledgeBatch
    heads: Int[Tensor, " triple"]
    relations: Int[Tensor, " triple"]
    tails: Int[Tensor, " triple"]
    negative_heads: Int[Tensor, "triple negative"]
    negative_tails: Int[Tensor, "triple negative"]
    head_partners: Int[Tensor, " triple"] | None = None
    tail_partners: Int[Tensor, " triple"] | None = None
    relation_texts: Int[Tensor, " triple"] | None = None

    def __post_init__(self) -> None:
        n_triples, n_texts = len(self.heads), len(self.texts)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "texts" or value is None:
                continue
            if len(value) != n_triples:
                raise BatchError(f"{field.name} has {len(value)} rows for {n_triples} triples")
            if field.name != "relations" and value.numel() and int(value.max()) >= n_texts:
                raise BatchError(f"{field.name} names text {int(value.max())} of {n_texts}")

    def __len__(self) -> int:
        return len(self.heads)

    def to(self, device: torch.device | str) -> TripleBatch:
        """The same triples on `device`."""
        moved: dict[str, Any] = {
            f.name: None if value is None else value.to(device)
            for f in dataclasses.fields(self)
            for value in (getattr(self, f.name),)
        }
        return TripleBatch(**moved)
