"""A graph network's parts around its layers: features of nodes, pooling, and its output.

Yasunaga et al. 2021, "QA-GNN" (NAACL), section 3.3, and Zhang et al. 2022, "GreaseLM: Graph
REASoning Enhanced Language Models" (ICLR), section 3. Where we differ from the papers: GELU is its
tanh approximation, as in both released codes.

Axis legend: batch, place (the context node, then the entities of a subgraph), node (all places of
a batch and a spare one), width, head, text_width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept.errors import ConfigError, MissingExtraError
from kept.layers.typed_graph import N_NODE_TYPES, TypedGraph

GAT_HEADS = 4
"""Of every graph layer in the released codes."""
SCORE_BASE = 1.1
EPSILON = 1e-5


def gelu(values: Tensor) -> Tensor:
    """GELU in its tanh approximation."""
    return F.gelu(values, approximate="tanh")


def normalised_scores(
    scores: Float[Tensor, "batch place"], is_real: Bool[Tensor, "batch place"]
) -> Float[Tensor, "batch place"]:
    """The context's score minus each place's, over the mean size of a text's; padding is 0.

    Larger means less relevant. The first place is the context node.
    """
    below = (scores[:, :1] - scores).masked_fill(~is_real, 0)
    mean = below.abs().sum(1, keepdim=True) / is_real.sum(1, keepdim=True)
    return below / (mean + EPSILON)


class NodeFeatures(nn.Module):
    """What each node is: features of its type, and of its relevance score as a sum of sines."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.types = nn.Linear(N_NODE_TYPES, width // 2)
        self.scores = nn.Linear(width // 2, width // 2)

    def forward(
        self, types: Int[Tensor, "*batch place"], scores: Float[Tensor, "*batch place"]
    ) -> Float[Tensor, "*batch place width"]:
        """Both halves side by side, types first."""
        one_hot = F.one_hot(types, N_NODE_TYPES).to(self.types.weight.dtype)
        powers = torch.arange(self.scores.in_features, device=scores.device, dtype=scores.dtype)
        sines = torch.sin(scores[..., None] * SCORE_BASE**powers)
        return torch.cat([gelu(self.types(one_hot)), gelu(self.scores(sines))], dim=-1)


class GraphLayers(nn.Module):
    """Layers of `GATConvE` with one edge encoder for all of them, and what they amount to.

    A layer's states go through GELU and dropout before the next. `combined` joins what went into
    the first layer and what came out of the last.
    """

    def __init__(self, *, width: int, n_layers: int, n_edge_types: int, dropout: float) -> None:
        super().__init__()
        if width % GAT_HEADS or width < 1:
            raise ConfigError(f"graph_width is {width}; use a multiple of {GAT_HEADS}")
        try:
            from kept.layers.gat_conv import EdgeEncoder, GATConvE  # slow, and an extra
        except ImportError as error:
            raise MissingExtraError(
                "torch-geometric is missing: pip install 'kept[pyg]'"
            ) from error
        self.edge_encoder = EdgeEncoder(width=width, n_edge_types=n_edge_types)
        self.layers = nn.ModuleList(GATConvE(width=width, heads=GAT_HEADS) for _ in range(n_layers))
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def step(
        self,
        index: int,
        states: Float[Tensor, "node width"],
        features: Float[Tensor, "node width"],
        graph: TypedGraph,
    ) -> Float[Tensor, "node width"]:
        """States after layer `index`. The vectors of edges are computed anew for every layer, so
        that the statistics of the edge encoder move once a layer, as in the released codes."""
        edges = self.edge_encoder(graph)
        return self.dropout(gelu(self.layers[index](states, features, edges, graph)))

    def run(
        self,
        states: Float[Tensor, "node width"],
        features: Float[Tensor, "node width"],
        graph: TypedGraph,
    ) -> Float[Tensor, "node width"]:
        """States after all layers."""
        for index in range(len(self.layers)):
            states = self.step(index, states, features, graph)
        return states

    def combined(
        self, before: Float[Tensor, "batch place width"], after: Float[Tensor, "batch place width"]
    ) -> Float[Tensor, "batch place width"]:
        """The output from the input of the first layer and the states after the last."""
        return self.dropout(gelu(self.first(before) + self.last(after)))


class AttentionPooling(nn.Module):
    """One vector for a subgraph: heads of attention from the text to its nodes.

    The released codes drop out .1 of the shares and of the result whatever their settings.
    """

    def __init__(self, *, width: int, text_width: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(f"graph_width {width} is not a multiple of pooling_heads {heads}")
        self.heads = heads
        self.queries = nn.Linear(text_width, width)
        self.keys, self.values = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def attention(
        self,
        text: Float[Tensor, "batch text_width"],
        states: Float[Tensor, "batch place width"],
        mask: Bool[Tensor, "batch place"],
    ) -> Float[Tensor, "batch head place"]:
        """Shares of the places where `mask` is True; of the first place where none is."""
        queries = self._by_head(self.queries(text)[:, None])
        keys = self._by_head(self.keys(states))
        scores = (queries @ keys.mT)[:, :, 0] / math.sqrt(keys.shape[-1])
        first = torch.zeros_like(mask)
        first[:, 0] = ~mask.any(1)
        least = torch.finfo(scores.dtype).min
        return scores.masked_fill(~(mask | first)[:, None], least).softmax(-1)

    def forward(
        self,
        text: Float[Tensor, "batch text_width"],
        states: Float[Tensor, "batch place width"],
        mask: Bool[Tensor, "batch place"],
    ) -> Float[Tensor, "batch width"]:
        """The heads' sums side by side."""
        shares = self.dropout(self.attention(text, states, mask))
        pooled = (shares[:, :, None] @ self._by_head(self.values(states)))[:, :, 0]
        return self.dropout(pooled.flatten(1))

    def _by_head(self, values: Tensor) -> Tensor:
        n_batch, n_places, _ = values.shape
        return values.reshape(n_batch, n_places, self.heads, -1).transpose(1, 2)


class MLP(nn.Module):
    """Hidden layers of linear, dropout, perhaps LayerNorm, and GELU; then a linear layer."""

    def __init__(self, *, sizes: Sequence[int], dropout: float, with_norm: bool) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        *hidden, last = pairwise(sizes)
        for width, inner in hidden:
            norm = [nn.LayerNorm(inner)] if with_norm else []
            steps += [nn.Linear(width, inner), nn.Dropout(dropout), *norm]
            steps.append(nn.GELU(approximate="tanh"))
        self.steps = nn.Sequential(*steps, nn.Linear(*last))

    def forward(self, values: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch out"]:
        return self.steps(values)
