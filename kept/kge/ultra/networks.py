"""Conditional message passing (NBFNet) over relations and entities: ULTRA.

Zhu et al. 2021, "Neural Bellman-Ford Networks" (NeurIPS), section 3.2: layers. Galkin et al. 2024,
"Towards Foundation Models for Knowledge Graph Reasoning" (ICLR), section 4; released code
DeepGraphLearning/ULTRA, whose weights load by their own names. Its kernel, with which the released
weights were trained, sends a message from the second end of an edge to the first; `to="second"` is
the other way, which the code falls back on. Head questions ask the relation network with the direct
relation, as released, and only the entity network with the inverse.

Axis legend: batch, node, type, edge, width, layer, candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import load
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from kept.errors import CheckpointError, ConfigError
from kept.kge.ultra.graphs import MEETINGS, Edges
from kept.kge.ultra.messages import (
    CACHE_NUMBERS,
    on_device,
    summed_by_question,
    summed_messages,
    sums_in,
)
from kept.kge.ultra.needed_rows import NeededRows, needed_rows, previous_states
from kept.model_files import readable, require_finite

Message = Literal["distmult", "transe", "rotate"]
Aggregation = Literal["sum", "mean", "max", "pna"]
Relations = Literal["independent", "dependent", "projected"]
End = Literal["first", "second"]
_SMALLEST_VARIANCE, _SMALLEST_SCALE = 1e-6, 1e-2
N_PNA = 12
"""Numbers that pna gathers for one: four aggregates times three scales."""


@dataclass(frozen=True, kw_only=True)
class LayerOptions:
    """A layer's message, aggregation and relation vectors.

    `relations`: a table of its own ("independent"), a linear map of the query ("dependent"), or two
    linear maps of given vectors ("projected"). `to`: the end of an edge that receives.
    """

    width: int = 64
    message: Message = "distmult"
    aggregation: Aggregation = "sum"
    relations: Relations = "independent"
    layer_norm: bool = True
    activation: bool = True
    to: End = "first"

    @property
    def sums_products(self) -> bool:
        """Whether messages are products that are added up, the released kind."""
        return self.message == "distmult" and self.aggregation == "sum"

    def __post_init__(self) -> None:
        if self.message == "rotate" and self.to == "first":
            raise ConfigError("rotate messages run to the second end only; say to='second'")
        if self.message == "rotate" and self.width % 2:
            raise ConfigError(f"rotate halves the width; {self.width} is odd")


class ConditionalLayer(nn.Module):
    """new = relu(norm(linear([old ; aggregated]))), with the boundary as one message more."""

    def __init__(self, options: LayerOptions, n_types: int) -> None:
        super().__init__()
        self.options, self.n_types = options, n_types
        width = options.width
        gathered = N_PNA if options.aggregation == "pna" else 1
        self.linear = nn.Linear(width * (1 + gathered), width)
        self.layer_norm = nn.LayerNorm(width) if options.layer_norm else None
        if options.relations == "independent":
            self.relation = nn.Embedding(n_types, width)
        elif options.relations == "dependent":
            self.relation_linear = nn.Linear(width, n_types * width)
        else:
            self.relation_projection = nn.Sequential(
                nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
            )

    def relation_vectors(
        self,
        query: Float[Tensor, "batch width"],
        relation_vectors: Float[Tensor, "batch type width"] | None = None,
    ) -> Float[Tensor, "batch type width"]:
        """The vectors of edge types that this layer's messages carry."""
        if self.options.relations == "independent":
            return self.relation.weight.expand(len(query), -1, -1)
        if self.options.relations == "dependent":
            flat: Tensor = self.relation_linear(query)
            return flat.view(len(query), self.n_types, -1)
        assert relation_vectors is not None, "projected relations need vectors to project"
        return self.relation_projection(relation_vectors)

    def aggregate(
        self,
        states: Float[Tensor, "batch node width"],
        vectors: Float[Tensor, "batch type width"],
        boundary: Float[Tensor, "batch node width"],
        edges: Edges,
    ) -> Float[Tensor, "batch node _"]:
        """What every node gathers from its edges and its own boundary vector."""
        to, source = (0, 1) if self.options.to == "first" else (1, 0)
        if self.options.sums_products and edges.weights is None:
            return boundary + summed_by_question(states, vectors, edges.messages(to, states.device))
        neighbours, kinds = states[:, edges.ends[source]], vectors[:, edges.types]
        weights = None if edges.weights is None else edges.weights[:, None]
        messages = _weight_messages(self._message(neighbours, kinds), weights)
        nodes = edges.ends[to]
        if self.options.aggregation == "sum":
            return boundary.index_add(1, nodes, messages)
        degrees = (edges.degrees() + 1)[:, None].to(states.dtype)
        if self.options.aggregation == "max":
            return _extreme(boundary, nodes, messages, "amax")
        mean = boundary.index_add(1, nodes, messages) / degrees
        if self.options.aggregation == "mean":
            return mean
        squares = _weight_messages(self._squared(neighbours, kinds), weights)
        variance = (boundary**2).index_add(1, nodes, squares) / degrees - mean**2
        deviation = variance.clamp_min(_SMALLEST_VARIANCE).sqrt()
        largest = _extreme(boundary, nodes, messages, "amax")
        smallest = _extreme(boundary, nodes, messages, "amin")
        features = torch.stack([mean, largest, smallest, deviation], -1).flatten(-2)
        scale = degrees.log() / degrees.log().mean()
        scales = torch.cat([torch.ones_like(scale), scale, 1 / scale.clamp_min(_SMALLEST_SCALE)], 1)
        return (features[..., None] * scales[:, None]).flatten(-2)

    def _message(self, neighbours: Tensor, kinds: Tensor) -> Tensor:
        if self.options.message == "distmult":
            return neighbours * kinds
        if self.options.message == "transe":
            return neighbours + kinds
        real, imaginary = neighbours.chunk(2, -1)
        turn, twist = kinds.chunk(2, -1)
        return torch.cat([real * turn - imaginary * twist, real * twist + imaginary * turn], -1)

    def _squared(self, neighbours: Tensor, kinds: Tensor) -> Tensor:
        """Squares of messages; the kernel's of translations lack the mixed term, as released."""
        if self.options.to == "first":
            return self._message(neighbours**2, kinds**2)
        return self._message(neighbours, kinds) ** 2

    def forward(
        self,
        states: Float[Tensor, "batch node width"],
        vectors: Float[Tensor, "batch type width"],
        boundary: Float[Tensor, "batch node width"],
        edges: Edges,
    ) -> Float[Tensor, "batch node width"]:
        return self.combine(states, self.aggregate(states, vectors, boundary, edges))

    def combine(
        self, states: Float[Tensor, "... width"], gathered: Float[Tensor, "... _"]
    ) -> Float[Tensor, "... width"]:
        """New states from the old ones and what their nodes gathered."""
        weight, width = self.linear.weight, states.shape[-1]
        hidden = linear(states, weight[:, :width], self.linear.bias)
        hidden = hidden + linear(gathered, weight[:, width:])
        if self.layer_norm is not None:
            hidden = self.layer_norm(hidden)
        return hidden.relu() if self.options.activation else hidden


def _weight_messages(messages: Tensor, weights: Tensor | None) -> Tensor:
    return messages if weights is None else messages * weights


def _extreme(boundary: Tensor, nodes: Tensor, messages: Tensor, kind: str) -> Tensor:
    index = nodes[None, :, None].expand(messages.shape)
    return boundary.scatter_reduce(1, index, messages, reduce=kind, include_self=True)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """A network of `n_layers` layers of `layer`'s kind.

    `residual` adds a layer's input to its output; `concatenate` reads all layers' outputs, not the
    last alone.
    """

    layer: LayerOptions = LayerOptions()
    n_layers: int = 6
    residual: bool = True
    concatenate: bool = False

    @property
    def read_width(self) -> int:
        """The width of what is read: of states, and of the query beside them."""
        return self.layer.width * ((self.n_layers if self.concatenate else 1) + 1)


class ConditionalNetwork(nn.Module):
    """Layers that all read one boundary; shared by both networks."""

    def __init__(self, options: NetworkOptions, n_types: int) -> None:
        super().__init__()
        self.options = options
        self.layers = nn.ModuleList(
            ConditionalLayer(options.layer, n_types) for _ in range(options.n_layers)
        )

    def hidden(
        self,
        boundary: Float[Tensor, "batch node width"],
        query: Float[Tensor, "batch width"],
        edges: Edges,
        relation_vectors: Float[Tensor, "batch type width"] | None = None,
    ) -> list[Float[Tensor, "batch node width"]]:
        """The states after every layer."""
        states, every = boundary, []
        for layer in self.layers:
            assert isinstance(layer, ConditionalLayer)
            new = layer(states, layer.relation_vectors(query, relation_vectors), boundary, edges)
            states = new + states if self.options.residual else new
            every.append(states)
        return every

    def read(
        self, every: list[Tensor], query: Float[Tensor, "batch width"]
    ) -> Float[Tensor, "batch node _"]:
        """The last states, or all of them, with the query beside each node."""
        layers = every if self.options.concatenate else every[-1:]
        query_states = query[:, None].expand(-1, layers[0].shape[1], -1)
        return torch.cat([*layers, query_states], -1)


class RelationNetwork(ConditionalNetwork):
    """Vectors of all types, as a function of the relation that is asked for."""

    def __init__(self, options: NetworkOptions) -> None:
        super().__init__(options, len(MEETINGS))
        width = options.layer.width
        if options.concatenate:
            self.mlp = nn.Sequential(
                nn.Linear(options.read_width, options.read_width),
                nn.ReLU(),
                nn.Linear(options.read_width, width),
            )

    def forward(
        self, edges: Edges, relations: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch type width"]:
        """`edges` is the graph of relations; its start is ones at the relation asked for."""
        width = self.options.layer.width
        weight = next(self.parameters())
        query = weight.new_ones(len(relations), width)
        boundary = weight.new_zeros(len(relations), edges.n_nodes, width)
        rows = torch.arange(len(relations), device=weight.device)
        boundary[rows, on_device(relations, weight.device)] = 1
        every = self.hidden(boundary, query, edges)
        if not self.options.concatenate:
            return every[-1]
        return self.mlp(self.read(every, query))


class EntityNetwork(ConditionalNetwork):
    """Scores of all entities, by paths from the one asked about."""

    def __init__(self, options: NetworkOptions, n_types: int = 1) -> None:
        super().__init__(options, n_types)
        read = options.read_width
        self.mlp = nn.Sequential(nn.Linear(read, read), nn.ReLU(), nn.Linear(read, 1))

    def forward(
        self,
        edges: Edges,
        anchors: Int[Tensor, " batch"],
        query: Float[Tensor, "batch width"],
        vectors: Float[Tensor, "kind type width"] | None = None,
        candidates: Int[Tensor, "batch candidate"] | None = None,
        kinds: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch candidate"]:
        """Scores of `candidates`, of all nodes without them; `query` is the anchor's state.

        `kinds` says which of `vectors` each question takes; without it each has its own. Questions
        of one kind must have equal relation vectors in every layer.
        """
        if kinds is None:
            kinds = torch.arange(len(anchors))
        if len(anchors) and self.skips_rows(edges, query.device):
            return self.needed_scores(edges, anchors, query, vectors, candidates, kinds)
        vectors = None if vectors is None else vectors[on_device(kinds, query.device)]
        scores: Tensor = self.mlp(self.all_features(edges, anchors, query, vectors, candidates))
        return scores.squeeze(-1)

    def skips_rows(self, edges: Edges, device: torch.device) -> bool:
        """Whether only the states that matter are computed, as a CPU does for the released kind.

        A GPU computes them all faster than a host could plan.
        """
        is_released = self.options.layer.sums_products and not self.options.concatenate
        return is_released and edges.weights is None and device.type == "cpu"

    def all_features(
        self,
        edges: Edges,
        anchors: Int[Tensor, " batch"],
        query: Float[Tensor, "batch width"],
        vectors: Float[Tensor, "batch type width"] | None,
        candidates: Int[Tensor, "batch candidate"] | None,
    ) -> Float[Tensor, "batch candidate _"]:
        """What is read of the candidates, from the states of all nodes."""
        device = query.device
        boundary = query.new_zeros(len(anchors), edges.n_nodes, query.shape[1])
        boundary[torch.arange(len(anchors), device=device), on_device(anchors, device)] = query
        features = self.read(self.hidden(boundary, query, edges, vectors), query)
        if candidates is None:
            return features
        index = on_device(candidates, device)[..., None].expand(-1, -1, features.shape[-1])
        return features.gather(1, index)

    def needed_scores(
        self,
        edges: Edges,
        anchors: Int[Tensor, " batch"],
        query: Float[Tensor, "batch width"],
        vectors: Float[Tensor, "kind type width"] | None,
        candidates: Int[Tensor, "batch candidate"] | None,
        kinds: Int[Tensor, " batch"],
    ) -> Float[Tensor, "batch candidate"]:
        """Scores from the states of rows that they depend on."""
        rows = needed_rows(
            edges.messages(0 if self.options.layer.to == "first" else 1),
            anchors.numpy(),
            kinds.numpy(),
            None if candidates is None else candidates.numpy(),
            self.options.n_layers,
        )
        states = self.needed_states(rows, query, kinds, vectors)
        first, _, last = self.mlp
        assert isinstance(first, nn.Linear)
        width = states.shape[1]
        of_states = linear(states, first.weight[:, :width], first.bias)  # once for each row
        of_queries = linear(query, first.weight[:, width:])[:, None]
        step = max(1, CACHE_NUMBERS // (rows.answers.shape[1] * of_states.shape[1]))
        parts = [
            last((embedding(answers, of_states) + queries).relu_())
            for answers, queries in zip(
                torch.split(rows.answers, step), torch.split(of_queries, step), strict=True
            )
        ]
        return torch.cat(parts).squeeze(-1)

    def needed_states(
        self,
        rows: NeededRows,
        query: Float[Tensor, "batch width"],
        kinds: Int[Tensor, " batch"],
        vectors: Float[Tensor, "kind type width"] | None,
    ) -> Float[Tensor, "row width"]:
        """The states of the last layer's rows."""
        n_kinds = int(kinds.max()) + 1
        first = torch.empty(n_kinds, dtype=torch.int64).scatter_(0, kinds, torch.arange(len(kinds)))
        states, queries_of_kinds = (
            torch.cat([query, query.new_zeros(1, query.shape[1])]),
            query[first],
        )
        for layer, needed in zip(self.layers, rows.layers, strict=True):
            assert isinstance(layer, ConditionalLayer)
            types = layer.relation_vectors(queries_of_kinds, vectors).flatten(0, 1)
            if torch.is_grad_enabled():
                gathered = summed_messages(states, types, needed.messages)
                gathered = gathered.index_add(0, needed.anchors, query[needed.questions])
                states = self._new_states(layer, previous_states(states, needed), gathered)
                continue
            new = states.new_empty(len(needed.previous), states.shape[1])
            for block in needed.messages.blocks(states.shape[1]):
                gathered = sums_in(block, states, types, needed.messages)[1]
                rows_of_anchors, questions = needed.anchors_in(block.rows)
                gathered.index_add_(0, rows_of_anchors, query[questions])
                previous = states.index_select(0, needed.previous[block.rows])
                new[block.rows] = self._new_states(layer, previous, gathered)
            states = new
        return states

    def _new_states(self, layer: ConditionalLayer, states: Tensor, gathered: Tensor) -> Tensor:
        new: Tensor = layer.combine(states, gathered)
        return new + states if self.options.residual else new


class Ultra(nn.Module):
    """Both networks: no table of entities or relations, so that any graph can be asked."""

    def __init__(
        self, relations: NetworkOptions | None = None, entities: NetworkOptions | None = None
    ) -> None:
        super().__init__()
        layer_options = LayerOptions(relations="independent")
        self.relation_model = RelationNetwork(relations or NetworkOptions(layer=layer_options))
        projected = LayerOptions(relations="projected")
        self.entity_model = EntityNetwork(entities or NetworkOptions(layer=projected))

    def forward(
        self,
        edges: Edges,
        between: Edges,
        anchors: Int[Tensor, " batch"],
        relations: Int[Tensor, " batch"],
        is_head: Bool[Tensor, " batch"],
        candidates: Int[Tensor, "batch candidate"] | None = None,
    ) -> Float[Tensor, "batch candidate"]:
        """Scores for (anchor, relation, ?), or for (?, relation, anchor) where `is_head`.

        `between` is `relation_graph(edges)`.
        """
        distinct, inverse = relations.unique(return_inverse=True)  # each relation once
        types = relations + is_head * (edges.n_types // 2)
        vectors = self.relation_model(between, distinct)
        query = vectors[on_device(inverse, vectors.device), on_device(types, vectors.device)]
        kinds, of_kinds = inverse, vectors
        if self.entity_model.options.layer.relations == "dependent":  # vectors of the query
            kinds, of_kinds = types.unique(return_inverse=True)[1], None
        return self.entity_model(edges, anchors, query, of_kinds, candidates, kinds)


def make_ultra(*, width: int = 64, n_layers: int = 6) -> Ultra:
    """A new ULTRA of the released kind, of any size; initial weights are torch's."""
    relations, entities = (
        NetworkOptions(layer=LayerOptions(width=width, relations=kind), n_layers=n_layers)
        for kind in ("independent", "projected")
    )
    return Ultra(relations, entities)


def load_ultra(model: Ultra, path: Path) -> None:
    """Load weights under their released names, all or none.

    Raises `CheckpointError` for a file that cannot be read or holds other weights.
    """
    with readable(path):
        weights = load(path.read_bytes())
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(f"{path} holds no ULTRA of these sizes: {error}") from error
    require_finite(model, path)
