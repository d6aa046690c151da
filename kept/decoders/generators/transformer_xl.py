"""Transformer-XL: a reader of segments that remembers the states of the nodes before them.

Dai et al. 2019, "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context" (ACL),
section 3, as neulab/lrlm has it: no biases in attention, one pair of position biases for all
layers, and the memory holds what enters the first layer too. Nothing is dropped out here.

Axis legend: batch, node, width, head; `seen` is memory, then nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from kept.errors import ConfigError


@dataclass(frozen=True)
class TransformerXLConfig:
    """Sizes; `is_pre_norm` normalises what enters a part in place of what leaves it.

    With `lags` the memory of all layers but the first ends where that of the segment before would,
    as neulab/lrlm computes it (seen in its numbers): it misses the nodes that were read last.
    """

    input_width: int
    width: int
    n_heads: int
    head_width: int
    inner_width: int
    n_layers: int
    n_memory: int
    is_pre_norm: bool = False
    lags: bool = False

    def __post_init__(self) -> None:
        sizes = {
            k: v for k, v in vars(self).items() if k not in ("n_memory", "is_pre_norm", "lags")
        }
        wrong = [name for name, value in sizes.items() if value < 1]
        if wrong or self.n_memory < 0 or self.width % 2:
            raise ConfigError(f"{self}: sizes must be 1 or more, memory 0 or more, width even")


def _distance_vectors(n: int, width: int, like: Tensor) -> Float[Tensor, "seen width"]:
    """Sines, then cosines of the distances n-1 .. 0."""
    rates = 1 / 10000 ** (torch.arange(0, width, 2, dtype=like.dtype, device=like.device) / width)
    angles = torch.arange(n - 1, -1, -1, dtype=like.dtype, device=like.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class RelativeAttention(nn.Module):
    """Attention whose scores add what a node says to another and to their distance."""

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        inner = config.n_heads * config.head_width
        self.n_heads, self.is_pre_norm = config.n_heads, config.is_pre_norm
        self.qkv_net = nn.Linear(config.width, 3 * inner, bias=False)
        self.r_net = nn.Linear(config.width, inner, bias=False)
        self.o_net = nn.Linear(inner, config.width, bias=False)
        self.layer_norm = nn.LayerNorm(config.width)
        self.scale = config.head_width**-0.5

    def forward(self, hidden: Tensor, memory: Tensor, content: Tensor, positions: Tensor) -> Tensor:
        """`hidden` and `memory` `[batch node width]`; the two biases `[head width]` are shared."""
        n_nodes = hidden.shape[1]
        states = torch.cat([memory, hidden], dim=1)
        normed = self.layer_norm(states) if self.is_pre_norm else states
        query, key, value = (self._heads(part) for part in self.qkv_net(normed).chunk(3, dim=-1))
        query = query[:, -n_nodes:]
        distances = _distance_vectors(states.shape[1], hidden.shape[2], hidden)
        by_distance = self._heads(self.r_net(distances)[None])[0]
        scores = torch.einsum("bnhd,bshd->bhns", query + content, key)
        scores = scores + self._shifted(
            torch.einsum("bnhd,shd->bhns", query + positions, by_distance)
        )
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(
            1 + memory.shape[1]
        )
        shares = (scores * self.scale).masked_fill(later, -torch.inf).softmax(dim=-1)
        read = torch.einsum("bhns,bshd->bnhd", shares, value).flatten(2)
        after: Tensor = hidden + self.o_net(read)
        if self.is_pre_norm:
            return after
        normed_after: Tensor = self.layer_norm(after)
        return normed_after

    def _heads(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:-1], self.n_heads, -1)

    @staticmethod
    def _shifted(scores: Tensor) -> Tensor:
        """Column s of row i becomes the score of the distance from s to i."""
        n_nodes, n_seen = scores.shape[-2:]
        rows = torch.arange(n_nodes, device=scores.device)[:, None]
        columns = torch.arange(n_seen, device=scores.device)
        index = (columns + n_nodes - 1 - rows).clamp(max=n_seen - 1)  # beyond: later, masked
        return scores.gather(-1, index.expand_as(scores))


class FeedForward(nn.Module):
    """Two linear layers beside the residual."""

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.is_pre_norm = config.is_pre_norm
        self.inner = nn.Linear(config.width, config.inner_width)
        self.outer = nn.Linear(config.inner_width, config.width)
        self.layer_norm = nn.LayerNorm(config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        normed = self.layer_norm(hidden) if self.is_pre_norm else hidden
        after: Tensor = hidden + self.outer(self.inner(normed).relu())
        if self.is_pre_norm:
            return after
        normed_after: Tensor = self.layer_norm(after)
        return normed_after


class TransformerXL(nn.Module):
    """A stack of layers over input vectors, with a memory that is handed from segment to segment.

    Memory is a list of `[batch node width]`, one for what enters each layer and one for the output.
    """

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.config = config
        self.proj_input = nn.Linear(config.input_width, config.width)
        self.content_bias = nn.Parameter(torch.zeros(config.n_heads, config.head_width))
        self.place_bias = nn.Parameter(torch.zeros(config.n_heads, config.head_width))
        self.attention = nn.ModuleList(RelativeAttention(config) for _ in range(config.n_layers))
        self.feed_forward = nn.ModuleList(FeedForward(config) for _ in range(config.n_layers))

    def forward(
        self, vectors: Float[Tensor, "batch node width"], memory: list[Tensor] | None
    ) -> tuple[Float[Tensor, "batch node width"], list[Tensor]]:
        """Return the states and the memory for the next segment, through which no gradient goes."""
        hidden = self.proj_input(vectors)
        before = memory or [hidden[:, :0]] * (self.config.n_layers + 1)
        states = [hidden]
        for i, (attend, feed) in enumerate(zip(self.attention, self.feed_forward, strict=True)):
            hidden = feed(attend(hidden, before[i], self.content_bias, self.place_bias))
            states.append(hidden)
        return hidden, [
            self._remembered(old, new.detach(), is_first=i == 0)
            for i, (old, new) in enumerate(zip(before, states, strict=True))
        ]

    def _remembered(self, old: Tensor, new: Tensor, *, is_first: bool) -> Tensor:
        end = new.shape[1] + (0 if self.config.lags and not is_first else old.shape[1])
        return torch.cat([old, new], dim=1)[:, max(0, end - self.config.n_memory) : end]
