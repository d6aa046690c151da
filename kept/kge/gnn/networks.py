"""Graph networks over triples, R-GCN and CompGCN, with a triple scorer as decoder.

A triple (h, r, t) carries a message from h to t under type r, and one from t to h under type r +
n_relations. Initial states are a part of their own: a table of known entities, the relations around
a node (which need no known entities), or given text vectors.

Axis legend: entity, edge, type (relation or inverse), relation, basis, width, out, text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from kept.errors import ConfigError, MissingExtraError
from kept.evaluation.ranking import Triples
from kept.kge.encoded import table_scorer
from kept.kge.scorers import Scorer

try:
    from torch_geometric.nn import MessagePassing
except ImportError as error:
    raise MissingExtraError(
        "graph networks need torch-geometric: pip install 'kept[pyg]'"
    ) from error

DECODERS = ("transe", "distmult", "complex")


@dataclass(frozen=True, eq=False)
class MessageGraph:
    """Edges that carry messages: the triples first, then their inverses; `text` is optional.

    Shapes: `ends [2 edge]` (source, target), `types [edge]`, `text [entity text]`.
    """

    n_entities: int
    n_relations: int
    ends: Tensor
    types: Tensor
    text: Tensor | None = None

    @classmethod
    def of(
        cls,
        triples: Triples | Tensor,
        *,
        n_entities: int,
        n_relations: int,
        text: Tensor | None = None,
    ) -> MessageGraph:
        """From triples `[triple 3]`; ConfigError: text of another number of entities."""
        if text is not None and len(text) != n_entities:
            raise ConfigError(f"{len(text)} text vectors for {n_entities} entities")
        head, relation, tail = torch.as_tensor(np.asarray(triples, np.int64)).reshape(-1, 3).T
        ends = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])])
        types = torch.cat([relation, relation + n_relations])
        return cls(n_entities, n_relations, ends, types, text)

    @cached_property
    def type_shares(self) -> Tensor:
        """1 / (edges of the same type at the same target) `[edge]`: c_{i,r} of the R-GCN."""
        keys = self.ends[1] * (2 * self.n_relations) + self.types
        return 1.0 / torch.bincount(keys, minlength=1)[keys].double()

    @cached_property
    def direction_shares(self) -> Tensor:
        """1 / sqrt(source's edges out x target's edges in), inside each direction, `[edge]`."""
        return torch.cat([_symmetric(half) for half in self.ends.chunk(2, 1)])


class RGCNLayer(MessagePassing):  # type: ignore[misc]  # torch-geometric has no types
    """One relational convolution (Schlichtkrull et al., ESWC 2018, equations 2 and 3).

    `h'_i = W_0 h_i + b + sum_r sum_{j in N_i^r} W_r h_j / |N_i^r|`, `W_r = sum_b a_rb V_b`.
    torch-geometric's RGCNConv computes the same in one pass per relation; here messages are
    weighted and summed per basis first, so that hundreds of relations cost one pass.
    """

    def __init__(
        self, *, width: int, out: int, n_types: int, n_bases: int, generator: torch.Generator
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.bases = nn.Parameter(_glorot((n_bases, width, out), generator))
        self.coefficients = nn.Parameter(_glorot((n_types, n_bases), generator))
        self.root = nn.Parameter(_glorot((width, out), generator))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(
        self, states: Float[Tensor, "entity width"], graph: MessageGraph
    ) -> Float[Tensor, "entity out"]:
        weights = self.coefficients[graph.types] * graph.type_shares[:, None].to(states.dtype)
        size = (graph.n_entities, graph.n_entities)
        sums = self.propagate(graph.ends, x=states, weights=weights, size=size)
        messages: Tensor = torch.einsum("ebw,bwo->eo", sums, self.bases)
        return messages + states @ self.root + self.bias

    def message(self, x_j: Tensor, weights: Tensor) -> Tensor:
        """`[edge basis width]`."""
        return weights[:, :, None] * x_j[:, None, :]


def subtract(states: Tensor, relations: Tensor) -> Tensor:
    """Composition of CompGCN-Sub, as TransE."""
    return states - relations


def multiply(states: Tensor, relations: Tensor) -> Tensor:
    """Composition of CompGCN-Mult, as DistMult."""
    return states * relations


def correlate(states: Tensor, relations: Tensor) -> Tensor:
    """Composition of CompGCN-Corr, as HolE: `c_k = sum_i a_i b_{(i + k) mod width}`."""
    product = torch.fft.rfft(states).conj() * torch.fft.rfft(relations)
    result: Tensor = torch.fft.irfft(product, n=states.shape[-1])
    return result


COMPOSITIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sub": subtract,
    "mult": multiply,
    "corr": correlate,
}


class CompGCNLayer(MessagePassing):  # type: ignore[misc]
    """One composition-based convolution (Vashishth et al., ICLR 2020, equations 2 to 4).

    `h'_v = (W_O sum phi(h_u, z_r) + W_I sum phi(h_u, z_r) + W_S phi(h_v, z_loop)) / 3 + b`, the
    sums over edges of triples and over inverse ones, and `z'_r = z_r W_rel`. The third and the
    normalisation by degrees are the released code's. Where we differ from it: a source's degree is
    counted over edges out of it and a target's over edges into it (there both over the first end,
    so that a node without outgoing edges gets no message); no batch normalisation, whose running
    means would belong to the training graph.
    """

    def __init__(
        self, *, width: int, out: int, composition: str, generator: torch.Generator
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.compose = COMPOSITIONS[composition]
        self.maps = nn.Parameter(
            torch.stack([_glorot((width, out), generator) for _ in range(3)])
        )  # triples, inverses, loops
        self.relation_map = nn.Parameter(_glorot((width, out), generator))
        self.loop = nn.Parameter(_glorot((1, width), generator))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(
        self,
        states: Float[Tensor, "entity width"],
        relations: Float[Tensor, "type width"],
        graph: MessageGraph,
    ) -> tuple[Float[Tensor, "entity out"], Float[Tensor, "type out"]]:
        size = (graph.n_entities, graph.n_entities)
        total = self.compose(states, self.loop) @ self.maps[2]
        for ends, types, shares, weight in zip(
            graph.ends.chunk(2, 1),
            graph.types.chunk(2),
            graph.direction_shares.chunk(2),
            self.maps[:2],
            strict=True,
        ):
            sums = self.propagate(
                ends, x=states, named=relations[types], shares=shares.to(states.dtype), size=size
            )
            total = total + sums @ weight
        return total / 3 + self.bias, relations @ self.relation_map

    def message(self, x_j: Tensor, named: Tensor, shares: Tensor) -> Tensor:
        """`[edge width]`."""
        return shares[:, None] * self.compose(x_j, named)


class EntityTable(nn.Module):
    """One learned vector per entity: known entities only."""

    def __init__(self, *, n_entities: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.table = nn.Parameter(
            torch.empty(n_entities, width).normal_(0, 0.1, generator=generator)
        )

    def forward(self, graph: MessageGraph) -> Float[Tensor, "entity width"]:
        """ConfigError: a graph of other entities."""
        if graph.n_entities != len(self.table):
            raise ConfigError(
                f"a table of {len(self.table)} entities cannot start a graph of "
                f"{graph.n_entities}; take features from relations or texts"
            )
        return self.table


class RelationFeatures(nn.Module):
    """A node starts as the mean vector of the distinct types of its edges; zero without any.

    The relational context of NodePiece (Galkin et al., ICLR 2022, section 3.1), all of it and
    without anchors.
    """

    def __init__(self, *, n_types: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(n_types, width).normal_(0, 1, generator=generator))

    def forward(self, graph: MessageGraph) -> Float[Tensor, "entity width"]:
        shares = graph.type_shares[:, None].to(self.table.dtype)
        empty = self.table.new_zeros(graph.n_entities, self.table.shape[1] + 1)
        rows = torch.cat([self.table[graph.types] * shares, shares], 1)
        sums = empty.index_add(0, graph.ends[1], rows)
        return sums[:, :-1] / sums[:, -1:].clamp_min(1)


class TextFeatures(nn.Module):
    """A node starts as a linear map of its text vector (BLP: Daza et al., WWW 2021, section 3).

    BLP trains the encoder of the texts, too; here it is frozen, so vectors may come from anywhere.
    Rows of length 1 are expected, and scaled to about unit variance.
    """

    def __init__(self, *, text_width: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.map = nn.Parameter(_glorot((text_width, width), generator))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, graph: MessageGraph) -> Float[Tensor, "entity width"]:
        """ConfigError: a graph without text."""
        if graph.text is None:
            raise ConfigError("text features need a graph with text vectors")
        return graph.text * len(self.map) ** 0.5 @ self.map + self.bias


class SumOfFeatures(nn.Module):
    """Several initial states, added up."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, graph: MessageGraph) -> Float[Tensor, "entity width"]:
        return torch.stack([part(graph) for part in self.parts]).sum(0)


class NoGraph(nn.Module):
    """No messages: a node keeps its initial state."""

    def forward(
        self, states: Tensor, relations: Tensor, graph: MessageGraph
    ) -> tuple[Tensor, Tensor]:
        return states, relations


class RGCN(nn.Module):
    """Layers with ReLU and dropout between; relations are the decoder's own, unchanged."""

    def __init__(
        self,
        *,
        width: int,
        n_types: int,
        n_layers: int,
        n_bases: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.dropout = NamedDropout(dropout, generator)
        self.layers = nn.ModuleList(
            RGCNLayer(width=width, out=width, n_types=n_types, n_bases=n_bases, generator=generator)
            for _ in range(n_layers)
        )

    def forward(
        self, states: Tensor, relations: Tensor, graph: MessageGraph
    ) -> tuple[Tensor, Tensor]:
        for number, layer in enumerate(self.layers):
            states = layer(states if number == 0 else self.dropout(states.relu()), graph)
        return states, relations


class CompGCN(nn.Module):
    """Layers with tanh and dropout between; relations are updated, too."""

    def __init__(
        self,
        *,
        width: int,
        n_layers: int,
        composition: str,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.dropout = NamedDropout(dropout, generator)
        self.layers = nn.ModuleList(
            CompGCNLayer(width=width, out=width, composition=composition, generator=generator)
            for _ in range(n_layers)
        )

    def forward(
        self, states: Tensor, relations: Tensor, graph: MessageGraph
    ) -> tuple[Tensor, Tensor]:
        for number, layer in enumerate(self.layers):
            before = states if number == 0 else self.dropout(states.tanh())
            states, relations = layer(before, relations, graph)
        return states, relations


class NamedDropout(nn.Module):
    """Dropout with a given generator instead of the global state."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ConfigError(f"dropout {share} is outside [0, 1)")
        self.share, self.generator = share, generator

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or not self.share:
            return states
        keep = torch.rand(states.shape, generator=self.generator) >= self.share
        return states * keep.to(states.device) / (1 - self.share)


class GraphModel(nn.Module):
    """Features, layers and a decoder: from a graph to a scorer of its entities."""

    def __init__(
        self,
        *,
        features: EntityTable | RelationFeatures | TextFeatures | SumOfFeatures,
        layers: NoGraph | RGCN | CompGCN,
        decoder: str,
        n_relations: int,
        width: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if decoder not in DECODERS:
            raise ConfigError(f"decoder {decoder!r} is none of {', '.join(DECODERS)}")
        self.features, self.layers, self.decoder = features, layers, decoder
        self.n_relations = n_relations
        self.relations = nn.Parameter(_glorot((2 * n_relations, width), generator))

    def forward(self, graph: MessageGraph) -> Scorer:
        """A scorer over the states of this graph's entities; gradients reach all weights."""
        states, relations = self.layers(self.features(graph), self.relations, graph)
        return table_scorer(self.decoder, states, relations[: self.n_relations])

    @torch.no_grad()
    def scorer(self, graph: MessageGraph) -> Scorer:
        """What `kept.evaluation.ranking.rank` takes: states read once, in evaluation mode."""
        training = self.training
        self.eval()
        try:
            scorer: Scorer = self(graph)
        finally:
            self.train(training)
        return table_scorer(self.decoder, scorer.entities.detach(), scorer.relations.detach())


def _symmetric(ends: Tensor) -> Tensor:
    sources, targets = (torch.bincount(end, minlength=1)[end] for end in ends)
    return (sources * targets).double().rsqrt()


def _glorot(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform in +-sqrt(6 / (fan in + fan out)) over the last two axes."""
    bound = (6 / (shape[-2] + shape[-1])) ** 0.5
    return torch.empty(shape).uniform_(-bound, bound, generator=generator)
