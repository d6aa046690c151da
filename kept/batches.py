"""`KnowledgeBatch`: the one input of every encoder. Tensors only; strings stop here.

Ids in `node_ids`: word-piece ids for words; for entities and relations the *row* of the model's
table: `UNKNOWN_ROW`, `PAD_ROW`, `MASK_ROW`, then graph id + `N_SPECIAL_ROWS`.

Axis legend: batch, node, mention, candidate.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from kept.errors import BatchError

UNKNOWN_ROW, PAD_ROW, MASK_ROW, N_SPECIAL_ROWS = 0, 1, 2, 3
IGNORE = -100


@dataclass(frozen=True, eq=False)
class KnowledgeBatch:
    """One batch. Absent fields are None; masks are boolean with True = keep.

    `visible_mask[b, i, j]`: query node i may see node j. Padded nodes see (only) themselves.
    `mention_spans`: node indices, end exclusive. `node_labels`: the row or word-piece id to predict
    at a node, IGNORE elsewhere. `sampled_entities`: entity rows that the masked-entity loss ranks
    (golds and negatives), shared by the batch. `labels`: the task's own.
    """

    node_ids: Int[Tensor, "batch node"]
    node_kinds: Int[Tensor, "batch node"]
    node_mask: Bool[Tensor, "batch node"]
    positions: Int[Tensor, "batch node"]
    segment_ids: Int[Tensor, "batch node"]
    visible_mask: Bool[Tensor, "batch node node"]
    entity_ids: Int[Tensor, "batch node"] | None = None
    mention_spans: Int[Tensor, "batch mention 2"] | None = None
    candidate_ids: Int[Tensor, "batch mention candidate"] | None = None
    candidate_priors: Float[Tensor, "batch mention candidate"] | None = None
    node_labels: Int[Tensor, "batch node"] | None = None
    sampled_entities: Int[Tensor, " candidate"] | None = None
    labels: Tensor | None = None

    def __post_init__(self) -> None:
        n_batch, n_node = self.node_ids.shape
        for name in (
            "node_kinds",
            "node_mask",
            "positions",
            "segment_ids",
            "node_labels",
            "entity_ids",
        ):
            value = getattr(self, name)
            if value is not None and value.shape != (n_batch, n_node):
                raise BatchError(
                    f"{name} has shape {tuple(value.shape)}, node_ids {(n_batch, n_node)}"
                )
        if (
            self.visible_mask.shape != (n_batch, n_node, n_node)
            or self.visible_mask.dtype != torch.bool
        ):
            raise BatchError(
                f"visible_mask must be bool {(n_batch, n_node, n_node)}, "
                f"not {self.visible_mask.dtype} {tuple(self.visible_mask.shape)}"
            )
        if not bool(self.visible_mask.diagonal(dim1=1, dim2=2).all()):
            raise BatchError("every node must see itself: a fully masked row is NaN under SDPA")

    def __repr__(self) -> str:
        present = [f.name for f in dataclasses.fields(self) if getattr(self, f.name) is not None]
        n_batch, n_node = self.node_ids.shape
        return f"KnowledgeBatch(batch={n_batch}, node={n_node}, fields={present})"

    def to(self, device: torch.device | str) -> KnowledgeBatch:
        """The same batch on `device`."""
        moved = {
            f.name: value.to(device)
            if isinstance(value := getattr(self, f.name), Tensor)
            else value
            for f in dataclasses.fields(self)
        }
        return KnowledgeBatch(**moved)
