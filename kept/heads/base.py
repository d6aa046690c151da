"""What a head is: class scores from an encoder's output, for a whole text or for each node.

Axis legend: batch, node, target, class, width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.outputs import KnowledgeOutput


class Head(nn.Module, ABC):
    """Abstract: scores of `n_classes` classes, `[batch class]` or `[batch node class]`."""

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, n_classes: int, options: Any) -> Self:
        """A head of the encoder's sizes; `options`, the head's own dataclass, by its fields."""
        return cls(width=encoder.host.config.hidden_size, n_classes=n_classes, **vars(options))

    @abstractmethod
    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        """Raw scores."""
