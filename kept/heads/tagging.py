"""A head that scores classes at every node.

Axis legend: batch, node, class.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.heads.base import Head
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class TaggingOptions:
    """Dropout before the classes."""

    dropout: float = 0.1


class TaggingHead(Head):
    """Dropout and one linear layer over every node's state."""

    def __init__(self, *, width: int, n_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(width, n_classes)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        scores: Tensor = self.classes(self.dropout(output.node_states))
        return scores
