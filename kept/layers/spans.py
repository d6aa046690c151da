"""Vectors of spans of nodes, and a Transformer layer whose keys are spans.

Peters et al. 2019, "Knowledge Enhanced Contextual Word Representations" (EMNLP), section 3.3.

Axis legend: batch, node, span, query, key, width, head.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches.host_copies import on_host
from kept.errors import BatchError

FAR = -10_000.0
"""The score of masked candidates: finite, so that a row of nothing else stays finite."""


class SpanPooling(nn.Module):
    """A span's vector: the mean of its nodes, weighted by a learned score per node.

    An empty span (start = end) is exactly zero.
    """

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(
        self, states: Float[Tensor, "batch node width"], spans: Int[Tensor, "batch span 2"]
    ) -> Float[Tensor, "batch span width"]:
        nodes = torch.arange(states.shape[1], device=states.device)
        inside = (nodes >= spans[..., :1]) & (nodes < spans[..., 1:])
        scores = self.score(states).transpose(1, 2).expand(inside.shape)
        weights = scores.masked_fill(~inside, FAR).softmax(2) * inside
        return weights @ states


class SpanLayer(nn.Module):
    """A Transformer layer (post-norm, as BERT's) whose queries may be other states than its keys.

    A query that sees no key attends to all of them evenly; callers give it one to see.
    """

    def __init__(
        self, *, width: int, n_heads: int, feed_forward: int, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_dropout = nn.Dropout(dropout)
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.intermediate = nn.Linear(width, feed_forward)
        self.output = nn.Linear(feed_forward, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        queries: Float[Tensor, "batch query width"],
        keys: Float[Tensor, "batch key width"],
        sees: Bool[Tensor, "batch query key"],
    ) -> Float[Tensor, "batch query width"]:
        """The queries with what they attend to."""
        query, key, value = (
            self._heads(layer(states))
            for layer, states in ((self.query, queries), (self.key, keys), (self.value, keys))
        )
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        weights = scores.masked_fill(~sees[:, None], FAR).softmax(3)
        attended = (self.attention_dropout(weights) @ value).transpose(1, 2).flatten(2)
        states = self.attention_norm(queries + self.dropout(self.attention_output(attended)))
        changed = self.output(F.gelu(self.intermediate(states)))
        return self.output_norm(states + self.dropout(changed))

    def _heads(
        self, states: Float[Tensor, "batch key width"]
    ) -> Float[Tensor, "batch head key part"]:
        return states.unflatten(2, (self.n_heads, -1)).transpose(1, 2)


def all_there(spans: Int[Tensor, "batch target 2"]) -> bool:
    """Whether no span is empty."""
    known = on_host(spans)
    return bool((known[..., 1] > known[..., 0]).all())


def target_states(
    states: Float[Tensor, "batch node width"], spans: Int[Tensor, "batch target 2"] | None
) -> Float[Tensor, "batch target width"]:
    """State of the first node of every target; raises `BatchError` where a target is absent."""
    if spans is None or not all_there(spans):
        raise BatchError("this head reads target_spans, and a sample has none")
    rows = spans[..., 0, None].expand(-1, -1, states.shape[2])
    return states.gather(1, rows)


def target_means(
    states: Float[Tensor, "batch node width"], spans: Int[Tensor, "batch target 2"] | None
) -> Float[Tensor, "batch target width"]:
    """Mean state of every target's nodes; raises `BatchError` where a target is absent."""
    if spans is None or not all_there(spans):
        raise BatchError("this head reads target_spans, and a sample has none")
    nodes = torch.arange(states.shape[1], device=states.device)
    inside = ((nodes >= spans[..., :1]) & (nodes < spans[..., 1:])).to(states.dtype)
    return inside @ states / inside.sum(2, keepdim=True)
