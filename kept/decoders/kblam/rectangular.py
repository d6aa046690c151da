"""Parts of attention that reads facts beside text: fact tokens, queries, choice, products.

Axis legend: batch, node, fact, head, width (of the host), head_width, stacked (all slices of a
fact).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from kept.errors import BatchError


@dataclass(frozen=True, eq=False)
class FactTokens:
    """Keys and values of facts, all slices side by side; shared by a batch, or a row a sample.

    Raises `BatchError` where keys and values do not belong together.
    """

    keys: Float[Tensor, "*batch fact stacked"]
    values: Float[Tensor, "*batch fact stacked"]

    def __post_init__(self) -> None:
        if self.keys.shape != self.values.shape or self.keys.ndim not in (2, 3):
            raise BatchError(
                f"keys {tuple(self.keys.shape)} and values {tuple(self.values.shape)} must both be "
                "[fact stacked] or [batch fact stacked]"
            )
        if self.n_facts == 0:
            raise BatchError("no facts: give None for a batch without a graph")

    def __repr__(self) -> str:
        batch = "shared" if self.keys.ndim == 2 else f"batch={len(self.keys)}"
        return f"FactTokens(fact={self.n_facts}, {batch}, stacked={self.keys.shape[-1]})"

    @property
    def n_facts(self) -> int:
        """Facts that each sample can read."""
        return int(self.keys.shape[-2])

    def __getitem__(self, rows: Int[Tensor, "..."]) -> FactTokens:
        """Those of shared facts at `rows`: `[fact]`, or `[batch fact]` for a row a sample."""
        return FactTokens(self.keys[rows], self.values[rows])

    def of_slice(self, number: int, n_slices: int, n_heads: int) -> tuple[Tensor, Tensor]:
        """Keys and values `[batch head fact head_width]` of one slice; batch is 1 where shared."""
        if self.keys.shape[-1] % (n_slices * n_heads):
            raise BatchError(
                f"facts are {self.keys.shape[-1]} wide, which is not {n_slices} slices of {n_heads}"
                " heads: encode them with this model's own encoder"
            )
        keys, values = (
            each.reshape(-1, self.n_facts, n_slices, n_heads, each.shape[-1] // n_slices // n_heads)
            for each in (self.keys, self.values)
        )
        return keys[:, :, number].transpose(1, 2), values[:, :, number].transpose(1, 2)


def best_facts(
    query: Float[Tensor, "batch head node head_width"],
    keys: Float[Tensor, "batch head fact head_width"],
    k: int,
    counted: Bool[Tensor, "batch node"],
) -> Int[Tensor, "batch k"]:
    """The `k` facts with the highest score summed over heads and `counted` nodes, best first.

    The released code sums over padding, too: hand it a mask that is all True. Of equal sums the
    first fact wins.
    """
    summed = (query * counted[:, None, :, None]).sum(dim=2)
    sums = (summed[:, :, None] * keys).sum(dim=(1, 3))
    return sums.sort(dim=1, descending=True, stable=True).indices[:, :k]


def best_of_each_node(
    scores: Float[Tensor, "batch head node fact"], k: int
) -> Float[Tensor, "batch head node fact"]:
    """Scores with those outside a node's `k` highest sums over heads at minus infinity.

    >>> best_of_each_node(torch.tensor([[[[1.0, 3.0, 2.0]]]]), 2)
    tensor([[[[-inf, 3., 2.]]]])
    """
    best = scores.sum(dim=1, keepdim=True).topk(k, dim=-1).indices
    kept = torch.zeros_like(scores[:, :1], dtype=torch.bool).scatter(-1, best, value=True)
    return scores.masked_fill(~kept, -torch.inf)


def projections(
    attention: Any, hidden: Float[Tensor, "batch node width"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values `[batch head node head_width]` of the text, before rotation."""
    head_width = attention.head_dim
    if hasattr(attention, "qkv_proj"):  # Phi-3: one matrix
        n_queries = attention.o_proj.in_features
        n_keys = (attention.qkv_proj.out_features - n_queries) // 2
        parts = attention.qkv_proj(hidden).split([n_queries, n_keys, n_keys], dim=-1)
    else:
        maps = attention.q_proj, attention.k_proj, attention.v_proj
        parts = tuple(each(hidden) for each in maps)
    query, key, value = (part.unflatten(-1, (-1, head_width)) for part in parts)
    if hasattr(attention, "q_norm"):  # Qwen 3
        query, key = attention.q_norm(query), attention.k_norm(key)
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def rotated(
    states: Float[Tensor, "batch head node head_width"], rotary: tuple[Tensor, Tensor]
) -> Float[Tensor, "batch head node head_width"]:
    """Rotary positions (Su et al. 2021, RoFormer), by halves; what is beyond the angles stays."""
    cosine, sine = (each[:, None] for each in rotary)
    turned, kept = states[..., : cosine.shape[-1]], states[..., cosine.shape[-1] :]
    first, second = turned.chunk(2, dim=-1)
    turned = turned * cosine + torch.cat([-second, first], dim=-1) * sine
    return torch.cat([turned, kept], dim=-1)


def query_map(attention: Any) -> nn.Linear:
    """A copy of the map that makes a layer's queries."""
    n_queries = attention.o_proj.in_features
    fused = hasattr(attention, "qkv_proj")
    source = attention.qkv_proj if fused else attention.q_proj
    has_bias = source.bias is not None
    projection = nn.Linear(source.in_features, n_queries, bias=has_bias)
    projection = projection.to(source.weight.device, source.weight.dtype)
    with torch.no_grad():
        projection.weight.copy_(source.weight[:n_queries])
        if has_bias:
            projection.bias.copy_(source.bias[:n_queries])
    return projection


def gathered(
    states: Float[Tensor, "shared head fact head_width"], best: Int[Tensor, "batch k"]
) -> Float[Tensor, "batch head k head_width"]:
    """The states of each sample's `best` facts, in their order; `shared` is batch or 1."""
    rows = torch.arange(len(best), device=best.device)[:, None]
    rows = rows.expand_as(best) if len(states) > 1 else torch.zeros_like(best)
    return states.transpose(1, 2)[rows, best].transpose(1, 2)


def products(
    query: Float[Tensor, "batch head node head_width"],
    keys: Float[Tensor, "shared head fact head_width"],
) -> Float[Tensor, "batch head node fact"]:
    """Scores of every node and fact; shared keys are not copied for each sample."""
    if len(keys) == 1:
        return torch.einsum("bhnw,hfw->bhnf", query, keys[0])
    return query @ keys.mT


def mixed(
    weights: Float[Tensor, "batch head node fact"],
    values: Float[Tensor, "shared head fact head_width"],
) -> Float[Tensor, "batch head node head_width"]:
    """The sum of the values by their weights; shared values are not copied for each sample."""
    if len(values) == 1:
        return torch.einsum("bhnf,hfw->bhnw", weights, values[0])
    return weights @ values
