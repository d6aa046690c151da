"""The head of QA-GNN and GreaseLM: an MLP over what the encoder says of text and subgraph together.

Yasunaga et al. 2021, "QA-GNN" (NAACL), equation 3: the score of an answer.

Axis legend: batch, class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.subgraph.base import SubgraphEncoder
from kept.errors import BatchError, ConfigError
from kept.heads.base import Head
from kept.layers.graph_layers import MLP
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """`layers`: how many hidden layers of `width` the MLP has; the papers' models have none."""

    layers: int = 0
    width: int = 200
    dropout: float = 0.2

    def __post_init__(self) -> None:
        if self.layers < 0 or self.width < 1:
            raise ConfigError(
                f"layers is {self.layers} and width {self.width}; use 0 or more layers of width 1 "
                "or more"
            )


class GraphHead(Head):
    """Scores from `KnowledgeOutput.text_vector`."""

    def __init__(
        self, *, text_width: int, n_classes: int, layers: int, width: int, dropout: float
    ) -> None:
        super().__init__()
        sizes = (text_width, *[width] * layers, n_classes)
        self.mlp = MLP(sizes=sizes, dropout=dropout, with_norm=True)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, n_classes: int, options: GraphOptions) -> Self:
        """Raises `ConfigError` for an encoder without a graph network."""
        if not isinstance(encoder, SubgraphEncoder):
            raise ConfigError(
                f"{type(encoder).__name__} has no graph network, which the head graph reads; take "
                "the method qagnn or greaselm, or the head pooled"
            )
        return cls(text_width=encoder.text_width, n_classes=n_classes, **vars(options))

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        """Raises `BatchError` for an output without `text_vector`."""
        if output.text_vector is None:
            raise BatchError("the head graph reads text_vector, and this output has none")
        scores: Tensor = self.mlp(output.text_vector)
        return scores
