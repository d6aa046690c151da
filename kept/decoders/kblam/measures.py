"""Whether text attends to the fact that it asks for, by reading layer.

Axis legend: batch, head, node, fact.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class AttentionAccuracy:
    """Shares of questions whose fact has the most attention, and is among the five with most."""

    first: float
    in_five: float


def attention_sums(
    weights: Float[Tensor, "batch head node fact"], counted: Bool[Tensor, "batch node"]
) -> Float[Tensor, "batch fact"]:
    """The attention that each fact gets from all heads and `counted` nodes.

    The released code counts padding, too: hand it a mask that is all True.
    """
    return (weights * counted[:, None, :, None]).sum(dim=(1, 2))


def attention_accuracy(
    sums: Float[Tensor, "batch fact"], right: Int[Tensor, " batch"]
) -> AttentionAccuracy:
    """How often the column `right` has the highest sum, and one of the five highest.

    >>> sums = torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    >>> attention_accuracy(sums, torch.tensor([1, 1])).first
    0.5
    """
    order = sums.sort(dim=1, descending=True, stable=True).indices
    hits = order == right[:, None]
    return AttentionAccuracy(
        float(hits[:, 0].float().mean()), float(hits[:, :5].any(dim=1).float().mean())
    )


def all_nodes(weights: Float[Tensor, "batch head node fact"]) -> Bool[Tensor, "batch node"]:
    """A mask that counts every node, padding too, as the released code does."""
    return torch.ones(weights.shape[0], weights.shape[2], dtype=torch.bool, device=weights.device)
