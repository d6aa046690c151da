"""The classification head of UER, which K-BERT's released classifier uses.

Axis legend: batch, node, class, width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind
from kept.heads.base import Head
from kept.outputs import KnowledgeOutput

POOLINGS = ("first", "mean", "max", "last")


@dataclass(frozen=True, kw_only=True)
class UEROptions:
    """`pooling` of the node states, over `over`: "words" (no padding, nothing injected) or "all".

    "all" is the released code, where mean, max and last read padding as well.
    """

    pooling: str = "first"
    over: str = "words"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        faults = []
        if self.pooling not in POOLINGS:
            faults.append(f"pooling {self.pooling!r}: one of {', '.join(POOLINGS)}")
        if self.over not in ("words", "all"):
            faults.append(f"over {self.over!r}: 'words' or 'all'")
        if faults:
            raise ConfigError("head uer: " + "; ".join(faults))


class UERHead(Head):
    """Pooling, a linear layer, tanh, dropout, and a linear layer to classes.

    Zhao et al. 2019, "UER" (EMNLP), released code; Liu et al. 2020, section 4.
    """

    def __init__(
        self, *, width: int, n_classes: int, pooling: str, over: str, dropout: float
    ) -> None:
        super().__init__()
        self.pooling, self.over = pooling, over
        self.dense = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(width, n_classes)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        read = torch.ones_like(batch.node_mask)
        if self.over == "words":
            read = batch.node_mask & (batch.node_kinds == NodeKind.WORD)
        pooled = pool(output.node_states, read, self.pooling)
        scores: Tensor = self.classes(self.dropout(torch.tanh(self.dense(pooled))))
        return scores


def pool(
    states: Float[Tensor, "batch node width"], read: Bool[Tensor, "batch node"], pooling: str
) -> Float[Tensor, "batch width"]:
    """Return one state per text from the nodes in `read`, of which there is at least one."""
    if pooling == "mean":
        return (states * read[..., None]).sum(1) / read.sum(1, keepdim=True)
    if pooling == "max":
        return states.masked_fill(~read[..., None], float("-inf")).amax(1)
    columns = torch.arange(read.shape[1], device=read.device).expand_as(read)
    if pooling == "first":
        positions = columns.masked_fill(~read, read.shape[1]).amin(1)
    else:
        positions = columns.masked_fill(~read, -1).amax(1)
    return states[torch.arange(len(states), device=states.device), positions]
