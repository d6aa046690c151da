"""Heads that read one state per text, or the states of its targets.

Axis legend: batch, class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor, nn

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind
from kept.heads.base import Head
from kept.host_families import layer_norm_eps
from kept.layers.spans import target_means, target_states
from kept.layers.transform import Transform
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class PooledOptions:
    """`read`: "pooler" (the host's pooler over the first node), "first" (its bare state), "mean"
    (the mean over the words of the text)."""

    read: str = "pooler"
    dropout: float = 0.1
    bias: bool = True

    def __post_init__(self) -> None:
        if self.read not in ("pooler", "first", "mean"):
            raise ConfigError(f"read is {self.read!r}; use 'pooler', 'first' or 'mean'")


class PooledHead(Head):
    """Dropout and one linear layer over the text's state."""

    def __init__(
        self, *, width: int, n_classes: int, read: str, dropout: float, bias: bool
    ) -> None:
        super().__init__()
        self.read = read
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(width, n_classes, bias=bias)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        states = output.node_states
        if self.read == "mean":
            pooled = _word_mean(states, batch)
        elif self.read == "pooler":
            pooled = hosts.pooled(encoder.host, states)
        else:
            pooled = states[:, 0]
        scores: Tensor = self.classes(self.dropout(pooled))
        return scores


def _word_mean(states: Tensor, batch: KnowledgeBatch) -> Tensor:
    """`[batch width]`; every text has words, at least the host's own first one."""
    words = ((batch.node_kinds == NodeKind.WORD) & batch.node_mask).unsqueeze(-1).to(states.dtype)
    mean: Tensor = (states * words).sum(1) / words.sum(1)
    return mean


@dataclass(frozen=True, kw_only=True)
class TransformOptions:
    """Dropout inside the transform, before its normalisation."""

    dropout: float = 0.3


class TransformHead(Head):
    """The transform of a pre-training head over the first node, then one score per class.

    As CoLAKE (Sun et al. 2020, released code) classifies relations and types.
    """

    def __init__(
        self, *, width: int, embedding: int, n_classes: int, epsilon: float, dropout: float
    ) -> None:
        super().__init__()
        self.transform = Transform(
            width=width, embedding=embedding, epsilon=epsilon, dropout=dropout
        )
        self.classes = nn.Linear(embedding, n_classes)

    @classmethod
    def for_encoder(
        cls, encoder: KnowledgeEncoder, n_classes: int, options: TransformOptions
    ) -> Self:
        host = encoder.host.config
        return cls(
            width=host.hidden_size,
            embedding=hosts.word_table(encoder.host).embedding_dim,
            n_classes=n_classes,
            epsilon=layer_norm_eps(host),
            dropout=options.dropout,
        )

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        scores: Tensor = self.classes(self.transform(output.node_states[:, 0]))
        return scores


@dataclass(frozen=True, kw_only=True)
class TargetsOptions:
    """`n_targets` states are read side by side: `read` "first", that of each target's first node,
    which is its mark where there are marks; "mean", the mean over the target, marks and all."""

    n_targets: int = 2
    dropout: float = 0.1
    read: str = "first"

    def __post_init__(self) -> None:
        if self.read not in ("first", "mean"):
            raise ConfigError(f"read is {self.read!r}; use 'first' or 'mean'")


class TargetsHead(Head):
    """The targets' states side by side, a linear layer, dropout, and a linear layer to classes.

    As K-Adapter (Wang et al. 2020) classifies relations (two targets) and types (one).
    """

    def __init__(
        self, *, width: int, n_targets: int, n_classes: int, dropout: float, read: str = "first"
    ) -> None:
        super().__init__()
        self.n_targets, self.read = n_targets, read
        self.dense = nn.Linear(n_targets * width, width)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(width, n_classes)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        """`[batch class]`."""
        read = target_means if self.read == "mean" else target_states
        vectors = read(output.node_states, batch.target_spans)
        if vectors.shape[1] != self.n_targets:
            raise BatchError(
                f"the batch has {vectors.shape[1]} target(s) a text, this head reads "
                f"{self.n_targets}"
            )
        scores: Tensor = self.classes(self.dropout(self.dense(vectors.flatten(1))))
        return scores
