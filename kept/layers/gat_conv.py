"""Graph attention over typed nodes and edges, on torch-geometric's message passing.

Yasunaga et al. 2021, "QA-GNN: Reasoning with Language Models and Knowledge Graphs for Question
Answering" (NAACL), section 3.3; GreaseLM has the same layer. As in the released code, and other
than in the paper's equations: attention is normalised over the edges that leave one node, and
multiplied by how many they are; the old state is not added.

This file loads torch-geometric; `kept.layers.graph_layers` opens it where a model is made.

Axis legend: node, edge, width, head, part (of the width, one a head).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept.errors import MissingExtraError
from kept.layers.products import linear
from kept.layers.typed_graph import N_NODE_TYPES, TypedGraph

try:
    from torch_geometric.nn import MessagePassing
    from torch_geometric.utils import degree, softmax
except ImportError as error:
    raise MissingExtraError("torch-geometric is missing: pip install 'kept[pyg]'") from error


class MaskedBatchNorm(nn.Module):
    """Batch normalisation whose statistics, in training, are those of some rows alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(
        self, values: Float[Tensor, "row width"], mask: Bool[Tensor, " row"]
    ) -> Float[Tensor, "row width"]:
        """Rows where `mask` is False are 0 in training.

        A single row has no spread: it is normalised by the statistics of the training so far.
        """
        norm = self.norm
        if not self.training or int(mask.sum()) < 2:
            return F.batch_norm(
                values, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            )
        rows = norm(values[mask])
        return torch.zeros_like(values, dtype=rows.dtype).masked_scatter(mask[:, None], rows)


class NormedMLP(nn.Module):
    """Linear, batch normalisation, ReLU, linear."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.norm = MaskedBatchNorm(width)
        self.output = nn.Linear(width, width)

    def forward(
        self, values: Float[Tensor, "row width"], mask: Bool[Tensor, " row"]
    ) -> Float[Tensor, "row width"]:
        """`values` are those after the first linear layer, which is its owner's."""
        return self.output(F.relu(self.norm(values, mask)))


class EdgeEncoder(nn.Module):
    """A vector for every edge from its type and the types of its two nodes.

    The first layer is a linear one over three one-hot vectors side by side; it is computed as the
    sum of three of its columns.
    """

    def __init__(self, *, width: int, n_edge_types: int) -> None:
        super().__init__()
        self.n_edge_types = n_edge_types
        self.types = nn.Linear(n_edge_types + 1 + 2 * N_NODE_TYPES, width)
        self.rest = NormedMLP(width=width)

    def columns(self, graph: TypedGraph) -> Int[Tensor, "edge 3"]:
        """Where the one-hot vectors of each edge are 1."""
        first = self.n_edge_types + 1
        source, target = (graph.node_types[ends] for ends in graph.edge_index)
        return torch.stack([graph.edge_types, first + source, first + N_NODE_TYPES + target], 1)

    def forward(self, graph: TypedGraph) -> Float[Tensor, "edge width"]:
        """Self loops are edges of a type of their own, the last."""
        summed = F.embedding(self.columns(graph), self.types.weight.T).sum(1) + self.types.bias
        return self.rest(summed, graph.edge_mask)


def _by_parts(
    layer: nn.Linear, states: Float[Tensor, "node double"], edges: Float[Tensor, "edge width"]
) -> tuple[Float[Tensor, "node width"], Float[Tensor, "edge width"]]:
    """What nodes and edges add to `layer` over both side by side: a product for each node, where
    the released code has one for each edge. (oneDNN is slow with weights that are not contiguous.)
    """
    width = states.shape[1]
    of_nodes = linear(states, layer.weight[:, :width].contiguous(), layer.bias)
    return of_nodes, linear(edges, layer.weight[:, width:].contiguous())


class GATConvE(MessagePassing):  # type: ignore[misc]
    """One layer: messages along edges, summed at their targets, and an MLP over the sums."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.width, self.heads = width, heads
        self.queries = nn.Linear(2 * width, width)
        self.keys = nn.Linear(3 * width, width)
        self.values = nn.Linear(3 * width, width)
        self.inner = nn.Linear(width, width)
        self.rest = NormedMLP(width=width)

    def attention(
        self,
        states: Float[Tensor, "node double"],
        edges: Float[Tensor, "edge width"],
        graph: TypedGraph,
    ) -> Float[Tensor, "edge head"]:
        """Each edge's share of its source: the source's query with the key of target and edge."""
        sources, targets = graph.edge_index
        queries = self.queries(states)[sources] / math.sqrt(self.width // self.heads)
        of_nodes, of_edges = _by_parts(self.keys, states, edges)
        keys = of_nodes[targets] + of_edges
        scores = self._by_head(queries * keys).sum(-1)
        return softmax(scores, sources, num_nodes=len(states))

    def aggregated(
        self,
        states: Float[Tensor, "node double"],
        edges: Float[Tensor, "edge width"],
        graph: TypedGraph,
    ) -> Float[Tensor, "node width"]:
        """The sum of the messages that reach each node."""
        sources, n_nodes = graph.edge_index[0], len(states)
        shares = self.attention(states, edges, graph)
        weights = shares * degree(sources, n_nodes, dtype=shares.dtype)[sources, None]
        size = (n_nodes, n_nodes)
        of_nodes, of_edges = _by_parts(self.values, states, edges)
        return self.propagate(
            graph.edge_index, values=of_nodes, edges=of_edges, weights=weights, size=size
        )

    def forward(
        self,
        states: Float[Tensor, "node width"],
        features: Float[Tensor, "node width"],
        edges: Float[Tensor, "edge width"],
        graph: TypedGraph,
    ) -> Float[Tensor, "node width"]:
        """States after the layer; `features` of nodes enter every layer beside their states."""
        both = torch.cat([states, features], dim=1)
        inner = self.inner(self.aggregated(both, edges, graph))
        return self.rest(inner, graph.node_mask)

    def message(self, values_j: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        """Of torch-geometric's `propagate`: the weighted value of each edge's source."""
        values = self._by_head(values_j + edges)
        weighted: Tensor = (values * weights[..., None]).flatten(1)
        return weighted

    def _by_head(self, values: Float[Tensor, "edge width"]) -> Float[Tensor, "edge head part"]:
        return values.reshape(len(values), self.heads, -1)
