"""Sums of DistMult messages, question by question: what a layer of NBFNet or ULTRA spends its time
on.

Edges with the same receiver and type are summed before the type's vector multiplies them, and one
question is summed at a time, so that nothing as long as the edges is held for a whole batch.

Axis legend: batch, node, type, edge, group (edges of one node and type), width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import embedding_bag


@dataclass(frozen=True, eq=False)
class Groups:
    """Edges in groups of one node and one type, ordered by node, then by type.

    `others [edge]`: the edges' other ends, in that order; `starts [group]`: where a group begins
    among them. `nodes`, `types [group]`: of each group. `of_node [node]`: where a node's groups
    begin. `by_type [group]`: the groups ordered by type; `of_type [type]`: where a type's begin
    among these.
    """

    others: Int[Tensor, " edge"]
    starts: Int[Tensor, " group"]
    nodes: Int[Tensor, " group"]
    types: Int[Tensor, " group"]
    of_node: Int[Tensor, " node"]
    by_type: Int[Tensor, " group"]
    of_type: Int[Tensor, " type"]

    @classmethod
    def of(
        cls,
        ends: Int[Tensor, " edge"],
        others: Int[Tensor, " edge"],
        types: Int[Tensor, " edge"],
        *,
        n_nodes: int,
        n_types: int,
    ) -> Groups:
        """The groups of edges by the node in `ends`.

        >>> node, other, kind = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 0]])
        >>> Groups.of(node, other, kind, n_nodes=2, n_types=2).starts.tolist()
        [0, 1]
        """
        keys = ends * n_types + types
        order = keys.argsort(stable=True)
        groups, counts = keys[order].unique_consecutive(return_counts=True)
        nodes, kinds = groups // n_types, groups % n_types
        by_type = kinds.argsort(stable=True)
        return cls(
            others[order],
            counts.cumsum(0) - counts,
            nodes,
            kinds,
            torch.searchsorted(nodes, torch.arange(n_nodes)),
            by_type,
            torch.searchsorted(kinds[by_type], torch.arange(n_types)),
        )


def summed_products(
    states: Float[Tensor, "batch node width"],
    vectors: Float[Tensor, "batch type width"],
    received: Groups,
    sent: Groups,
) -> Float[Tensor, "batch node width"]:
    """For every node the sum over its edges of the other end's state times the type's vector.

    `received` groups the edges by the end that receives, `sent` the same edges by the other end.
    """
    sums: Tensor = _SummedProducts.apply(states, vectors, received, sent)  # type: ignore[no-untyped-call]
    return sums


class _SummedProducts(Function):
    @staticmethod
    def forward(
        context: Any, states: Tensor, vectors: Tensor, received: Groups, sent: Groups
    ) -> Tensor:
        context.save_for_backward(states, vectors)
        context.sent = sent
        return torch.stack(
            [
                _by_node(_grouped(one, received), kinds, received)
                for one, kinds in zip(states, vectors, strict=True)
            ]
        )

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        states, vectors = context.saved_tensors
        sent: Groups = context.sent
        of_states, of_vectors = [], []
        for one, kinds, changes in zip(states, vectors, gradient.contiguous(), strict=True):
            grouped = _grouped(changes, sent)
            products = one.index_select(0, sent.nodes).mul_(grouped)
            of_vectors.append(embedding_bag(sent.by_type, products, sent.of_type, mode="sum"))
            of_states.append(_by_node(grouped, kinds, sent))
        return torch.stack(of_states), torch.stack(of_vectors), None, None


def _grouped(states: Tensor, groups: Groups) -> Tensor:
    """The sum of the other ends' states of each group `[group width]`."""
    sums: Tensor = embedding_bag(groups.others, states, groups.starts, mode="sum")
    return sums


def _by_node(grouped: Tensor, vectors: Tensor, groups: Groups) -> Tensor:
    """The sum over each node's groups of their values times their types' vectors `[node width]`."""
    products = vectors.index_select(0, groups.types).mul_(grouped)
    rows = torch.arange(len(products))
    sums: Tensor = embedding_bag(rows, products, groups.of_node, mode="sum")
    return sums
