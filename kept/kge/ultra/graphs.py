"""Edges that messages run along: of a graph with its inverses, and between its relations.

Galkin et al. 2024, "Towards Foundation Models for Knowledge Graph Reasoning" (ICLR), section 4.1;
released code DeepGraphLearning/ULTRA.

Axis legend: triple, edge, type (relations, then their inverses).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from kept.kge.ultra.messages import Messages

HOST = torch.device("cpu")
MEETINGS = ("h2h", "t2t", "h2t", "t2h")
"""How two types meet in an entity: as first or second ends of its edges."""


@dataclass(frozen=True, eq=False)
class Edges:
    """`ends [2 edge]` (first, second end), `types [edge]`, of `n_nodes` nodes and `n_types` types.

    `weights [edge]` multiply messages; absent means 1.
    """

    ends: Int[Tensor, "2 edge"]
    types: Int[Tensor, " edge"]
    n_nodes: int
    n_types: int
    weights: Tensor | None = None

    @classmethod
    def of(cls, triples: Any, *, n_entities: int, n_relations: int) -> Edges:
        """Every triple `[triple (head, relation, tail)]` as an edge, then every inverse.

        The inverse of relation r is type r + `n_relations`. Repeated triples and loops stay.

        >>> Edges.of([[0, 1, 2]], n_entities=3, n_relations=2).types.tolist()
        [1, 3]
        """
        rows = torch.as_tensor(np.asarray(triples, np.int64)).reshape(-1, 3)
        head, relation, tail = rows.unbind(1)
        ends = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])])
        types = torch.cat([relation, relation + n_relations])
        return cls(ends, types, n_entities, 2 * n_relations)

    def only(self, kept: Bool[Tensor, " edge"]) -> Edges:
        """The edges that are `kept`."""
        weights = None if self.weights is None else self.weights[kept]
        return Edges(self.ends[:, kept], self.types[kept], self.n_nodes, self.n_types, weights)

    def messages(self, to: int, device: torch.device = HOST) -> Messages:
        """The messages of one question, that run to the first (0) or the second (1) ends."""
        if (to, device) in self._messages:
            return self._messages[to, device]
        if device != HOST:
            self._messages[to, device] = self.messages(to).to(device)
        else:
            keys = self.ends[to] * self.n_types + self.types
            order = keys.argsort(stable=True)
            groups, counts = keys[order].unique_consecutive(return_counts=True)
            starts, of_node = counts.cumsum(0), torch.arange(self.n_nodes + 1) * self.n_types
            tables = (
                self.ends[1 - to][order],
                torch.cat([starts.new_zeros(1), starts]),
                groups % self.n_types,
                torch.searchsorted(groups, of_node),
            )
            self._messages[to, device] = Messages.of(
                *(table.to(torch.int32).numpy() for table in tables),
                n_inputs=self.n_nodes,
                n_vectors=self.n_types,
            )
        return self._messages[to, device]

    @cached_property
    def _messages(self) -> dict[tuple[int, torch.device], Messages]:
        """The results of `messages`, by the end that receives and the device."""
        return {}

    def degrees(self) -> Tensor:
        """How many edges have each node as their second end, `[node]`."""
        return torch.bincount(self.ends[1], minlength=self.n_nodes)


def relation_graph(edges: Edges) -> Edges:
    """Edges between types that meet in an entity, of type h2h, t2t, h2t or t2h, each once.

    A type meets itself. Ordered by kind, first and second type. The nodes are the types of `edges`.
    """
    shape, ones = (edges.n_nodes, edges.n_types), np.ones(edges.ends.shape[1], np.int64)
    types = edges.types.numpy()
    has = {
        end: sparse.csr_matrix((ones, (edges.ends[slot].numpy(), types)), shape=shape)
        for slot, end in enumerate("ht")
    }
    parts = [_pairs(has[name[0]], has[name[2]]) for name in MEETINGS]
    kinds = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return Edges(
        torch.from_numpy(np.concatenate(parts, 1)),
        torch.from_numpy(kinds),
        edges.n_types,
        len(MEETINGS),
    )


def _pairs(first: Any, second: Any) -> NDArray[np.int64]:
    """Pairs of columns with an entry in one row, `[2 pair]`, in order."""
    product = (first.T @ second).tocsr()
    product.sort_indices()
    rows = np.repeat(np.arange(product.shape[0]), np.diff(product.indptr))
    return np.stack([rows, product.indices]).astype(np.int64)


def without_easy(
    edges: Edges, triples: Int[Tensor, "triple 3"], *, one_hop: bool = False
) -> Bool[Tensor, " edge"]:
    """Which edges are none of the `triples`, in neither direction, `[edge]`.

    With `one_hop` no edge between the two ends of a triple is left, whatever its type. Edges are
    compared as they are; the released matcher can take an id beyond the graph's for another.
    """
    n_relations = edges.n_types // 2
    head, relation, tail = triples.unbind(1)
    first, second = torch.cat([head, tail]), torch.cat([tail, head])
    types = torch.cat([relation, relation + n_relations])
    if one_hop:
        queries, present = first * edges.n_nodes + second, edges.ends[0] * edges.n_nodes
        return ~torch.isin(present + edges.ends[1], queries)
    keys = [
        (one * edges.n_nodes + two) * edges.n_types + kind
        for one, two, kind in ((first, second, types), (*edges.ends, edges.types))
    ]
    return ~torch.isin(keys[1], keys[0])
