"""What a head is: class scores from an encoder's output, for a whole text or for each node.

Axis legend: batch, node, target, class, width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError
from kept.outputs import KnowledgeOutput


class Head(nn.Module, ABC):
    """Abstract: scores of `n_classes` classes, `[batch class]` or `[batch node class]`."""

    @classmethod
    @abstractmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, n_classes: int, options: Any) -> Self:
        """A head of the encoder's sizes; `options` is the head's own dataclass."""

    @abstractmethod
    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        """Raw scores."""


def target_states(
    states: Float[Tensor, "batch node width"], spans: Int[Tensor, "batch target 2"] | None
) -> Float[Tensor, "batch target width"]:
    """State of the first node of every target; raises `BatchError` where a target is absent."""
    if spans is None or not bool((spans[..., 1] > spans[..., 0]).all()):
        raise BatchError("this head reads target_spans, and a sample has none")
    rows = spans[..., 0, None].expand(-1, -1, states.shape[2])
    return states.gather(1, rows)
