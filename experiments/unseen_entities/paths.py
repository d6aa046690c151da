"""Paths: ULTRA and NBFNet, trained on the triples of seen entities, on a GPU or a CPU.

The networks are those of `kept.kge.ultra`, which a CPU runs as they are. On a GPU one order of the
edges serves the whole training: those of a batch are left out by a mask, so that nothing is sorted
in a step, and `kernels` sums the messages of all questions at once.

Axis legend: batch, node, type, edge, segment, width, negative, candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Linear
from torch.nn.functional import linear

from experiments.unseen_entities.steps import take_steps
from experiments.unseen_entities.worlds import SplitGraph
from kept.evaluation.ranking import Direction
from kept.kge.ultra.graphs import Edges, relation_graph
from kept.kge.ultra.nbfnet import NBFNet
from kept.kge.ultra.networks import ConditionalLayer, ConditionalNetwork, Ultra, make_ultra
from kept.randomness import torch_draws, torch_seed

SEGMENT = 32
"""Edges of one row that one program of a kernel sums."""
N_TRIES = 8
"""Times that a negative which is a known answer is sampled again."""


@dataclass(frozen=True)
class PathSettings:
    """How a path network is trained; a step asks `batch_size` triples, half for their head."""

    steps: int
    batch_size: int
    width: int = 32
    n_layers: int = 6
    n_negatives: int = 256
    learning_rate: float = 0.005
    temperature: float = 1.0


@dataclass(frozen=True, eq=False)
class Segments:
    """Edges in one order, cut where the row changes and after `SEGMENT` edges.

    `order [edge]`: their numbers; `firsts`, `seconds [edge]`: what a kernel reads of each; `rows`,
    `starts`, `ends [segment]`.
    """

    order: Tensor
    firsts: Tensor
    seconds: Tensor
    rows: Tensor
    starts: Tensor
    ends: Tensor

    @classmethod
    def of(cls, keys: np.ndarray, first: np.ndarray, second: np.ndarray, device: Any) -> Segments:
        """Return the edges ordered by `keys`, their rows."""
        order = np.argsort(keys, kind="stable")
        n = len(keys)
        ordered = keys[order]
        is_new = np.append(True, ordered[1:] != ordered[:-1])[:n]
        begins = np.flatnonzero(is_new)
        offset = np.arange(n) - np.repeat(begins, np.diff(np.append(begins, n)))
        starts = np.flatnonzero(offset % SEGMENT == 0)
        ends = np.append(starts[1:], n)[: len(starts)]
        arrays = (first[order], second[order], ordered[starts], starts, ends)
        small = (torch.from_numpy(a.astype(np.int32)).to(device) for a in arrays)
        return cls(torch.from_numpy(order).to(device), *small)


@dataclass(frozen=True, eq=False)
class DeviceEdges:
    """The edges of a graph on a device, in three orders; `keys [edge]` sorted, with their edges."""

    first: Tensor
    second: Tensor
    types: Tensor
    received: Segments
    sent: Segments
    of_type: Segments
    keys: Tensor
    of_key: Tensor
    n_nodes: int
    n_types: int

    @classmethod
    def of(cls, edges: Edges, device: Any) -> DeviceEdges:
        """Return the edges of kept's form on a device."""
        first, second = (end.numpy() for end in edges.ends)
        kinds = edges.types.numpy()
        keys = (first * edges.n_nodes + second) * edges.n_types + kinds
        order = np.argsort(keys, kind="stable")
        on_device = [torch.from_numpy(a).to(device) for a in (first, second, kinds)]
        return cls(
            on_device[0],
            on_device[1],
            on_device[2],
            Segments.of(first, second, kinds, device),
            Segments.of(second, first, kinds, device),
            Segments.of(kinds, first, second, device),
            torch.from_numpy(keys[order]).to(device), torch.from_numpy(order).to(device),
            edges.n_nodes, edges.n_types,
        )  # fmt: skip

    def without(self, triples: Tensor) -> Tensor:
        """Return 0 for the edges of these triples, in both directions, else 1: `[edge]`."""
        head, relation, tail = triples.unbind(1)
        n_relations = self.n_types // 2
        keys = torch.cat(
            [
                (head * self.n_nodes + tail) * self.n_types + relation,
                (tail * self.n_nodes + head) * self.n_types + relation + n_relations,
            ]
        )
        index = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        keep = torch.ones(len(self.keys), device=self.keys.device)
        is_there = self.keys[index] == keys
        left_out = torch.where(is_there, 0.0, 1.0)
        return keep.scatter_reduce(0, self.of_key[index], left_out, "amin")

    def sums(self, keep: Tensor | None = None) -> Any:
        """Return the function that sums messages onto a boundary, without the edges not kept."""
        if keep is None:
            return self.all_sums
        return self._sums(keep)

    @cached_property
    def all_sums(self) -> Any:
        """`sums` of all edges."""
        return self._sums(torch.ones(len(self.keys), device=self.keys.device))

    def _sums(self, kept: Tensor) -> Any:
        if self.keys.device.type != "cuda":
            return partial(self.plainly_summed, kept)
        from experiments.unseen_entities.kernels import MaskedSums

        orders = (self.received.order, self.sent.order, self.of_type.order)
        keeps = tuple(kept[order] for order in orders)
        return lambda states, vectors, boundary: MaskedSums.apply(  # type: ignore[no-untyped-call]
            states.contiguous(), vectors.contiguous(), boundary, self, keeps
        )

    def plainly_summed(
        self, keep: Tensor, states: Tensor, vectors: Tensor, boundary: Tensor
    ) -> Tensor:
        """The same by torch alone, with all messages at once; the kernels are compared with it."""
        messages = states[:, self.second] * vectors[:, self.types] * keep[:, None]
        return boundary.index_add(1, self.first, messages)


# ---- the networks --------------------------------------------------------------------------------
def hidden(
    network: ConditionalNetwork, boundary: Tensor, query: Tensor, sums: Any,
    relation_vectors: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the last states of a network, as `ConditionalNetwork.hidden` computes them."""
    states = boundary
    for layer in network.layers:
        assert isinstance(layer, ConditionalLayer)
        assert layer.layer_norm is not None
        vectors = layer.relation_vectors(query, relation_vectors)
        gathered = sums(states, vectors, boundary)
        weight, width = layer.linear.weight, states.shape[-1]
        new = linear(states, weight[:, :width], layer.linear.bias)
        new = layer.layer_norm(new + linear(gathered, weight[:, width:])).relu()
        states = new + states
    return states


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """The edges that a network may read, and how their types meet; on a device, too."""

    edges: Edges
    between: Edges
    device: Any

    @classmethod
    def of(cls, triples: np.ndarray, world: SplitGraph, device: Any) -> ReadGraph:
        """Return those of triples."""
        sizes = {"n_entities": world.n_entities, "n_relations": world.n_relations}
        edges = Edges.of(triples, **sizes)
        return cls(edges, relation_graph(edges), device)

    @cached_property
    def on_device(self) -> DeviceEdges:
        """The edges in the orders that a device needs."""
        return DeviceEdges.of(self.edges, self.device)

    @cached_property
    def between_on_device(self) -> DeviceEdges:
        """How types meet, in the orders that a device needs."""
        return DeviceEdges.of(self.between, self.device)


def path_scores(
    model: Ultra | NBFNet, graph: ReadGraph, anchors: Tensor, relations: Tensor, is_head: Tensor,
    candidates: Tensor | None = None, keep: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the scores of `candidates [batch candidate]`, or of all nodes; `keep [edge]`."""
    if anchors.device.type != "cpu":
        return device_scores(model, graph, anchors, relations, is_head, candidates, keep)
    edges = graph.edges if keep is None else graph.edges.only(keep.bool())
    scores: Tensor = model(edges, graph.between, anchors, relations, is_head, candidates)
    return scores


def device_scores(
    model: Ultra | NBFNet, graph: ReadGraph, anchors: Tensor, relations: Tensor, is_head: Tensor,
    candidates: Tensor | None = None, keep: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return what the model's own `forward` does, with the sums of a device."""
    edges, between = graph.on_device, graph.between_on_device
    types = relations + is_head * (edges.n_types // 2)
    vectors = None
    rows = torch.arange(len(anchors), device=anchors.device)
    if isinstance(model, Ultra):
        network = model.relation_model
        distinct, inverse = relations.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        width = network.options.layer.width
        ones = torch.ones(len(distinct), width, device=anchors.device)
        start = ones.new_zeros(len(distinct), between.n_nodes, width)
        start[torch.arange(len(distinct), device=anchors.device), distinct] = 1
        vectors = hidden(network, start, ones, between.sums())[inverse]
        query = vectors[rows, types]
    else:
        query = model.query(types)
    boundary = query.new_zeros(len(anchors), edges.n_nodes, query.shape[1])
    boundary = boundary.index_put((rows, anchors), query)
    states = hidden(model.entity_model, boundary, query, edges.sums(keep), vectors)
    first, _, last = model.entity_model.mlp
    assert isinstance(first, Linear)
    assert isinstance(last, Linear)
    width = states.shape[-1]
    if candidates is not None:
        states = states.gather(1, candidates[..., None].expand(-1, -1, width))
    from_query = linear(query, first.weight[:, width:], first.bias)[:, None]
    read = (linear(states, first.weight[:, :width]) + from_query).relu()
    return linear(read, last.weight, last.bias).squeeze(-1)


def make_path_model(
    kind: str, world: SplitGraph, settings: PathSettings, seed: int
) -> Ultra | NBFNet:
    """Return a new network: "ultra" or "nbfnet"."""
    sizes = {"width": settings.width, "n_layers": settings.n_layers}
    with torch_draws(seed, "initial weights", kind):
        return make_ultra(**sizes) if kind == "ultra" else NBFNet(world.n_relations, **sizes)


def train_paths(
    model: Ultra | NBFNet, world: SplitGraph, settings: PathSettings, seed: int, device: Any
) -> list[float]:
    """Train in place on the training triples; return the losses, a tenth of the steps each.

    Negatives are trained entities that complete no training triple. The rate falls to zero.
    """
    model.to(device)
    data = torch.from_numpy(world.train).to(device)
    graph = ReadGraph.of(world.train, world, device)
    draws = torch.Generator(device).manual_seed(torch_seed(seed, "path batches"))
    entities = torch.from_numpy(np.flatnonzero(world.trained)).to(device)
    return take_steps(
        model, torch.optim.AdamW(model.parameters(), lr=settings.learning_rate), data,
        lambda batch: _loss(model, graph, batch, entities, settings, draws),
        n_steps=settings.steps, batch_size=settings.batch_size, clip_norm=1.0, draws=draws,
        rate=lambda step: settings.learning_rate * (1 - step / settings.steps),
    )  # fmt: skip


def _loss(
    model: Ultra | NBFNet, graph: ReadGraph, batch: Tensor, entities: Tensor,
    settings: PathSettings, draws: torch.Generator,
) -> Tensor:  # fmt: skip
    """The binary cross entropy of the answer and of weighed negatives, as `ultra_loss` has it."""
    head, relation, tail = batch.unbind(1)
    is_head = torch.arange(len(batch), device=batch.device) >= len(batch) // 2
    anchors, answers = torch.where(is_head, tail, head), torch.where(is_head, head, tail)
    negatives = _negatives(graph.on_device, anchors, relation, is_head, entities, settings, draws)
    keep = graph.on_device.without(batch)
    both = torch.cat([answers[:, None], negatives], 1)
    scores = path_scores(model, graph, anchors, relation, is_head, both, keep)
    positive, negative = scores[:, 0], scores[:, 1:]
    weights = torch.softmax(negative.detach() / settings.temperature, 1)
    lost = torch.nn.functional.softplus(-positive)
    lost = lost + (weights * torch.nn.functional.softplus(negative)).sum(1)
    return (lost / 2).mean()


def _negatives(
    edges: DeviceEdges, anchors: Tensor, relations: Tensor, is_head: Tensor, entities: Tensor,
    settings: PathSettings, draws: torch.Generator,
) -> Tensor:  # fmt: skip
    """Trained entities that are no answer in training, as far as `N_TRIES` draws find one."""
    shape, device = (len(anchors), settings.n_negatives), anchors.device
    types = (relations + is_head * (edges.n_types // 2))[:, None]
    negatives = torch.zeros(shape, dtype=torch.int64, device=device)
    is_open = torch.ones(shape, dtype=torch.bool, device=device)
    for _ in range(N_TRIES):
        sample = entities[torch.randint(len(entities), shape, generator=draws, device=device)]
        negatives = torch.where(is_open, sample, negatives)
        keys = (anchors[:, None] * edges.n_nodes + negatives) * edges.n_types + types
        index = torch.searchsorted(edges.keys, keys).clamp(max=len(edges.keys) - 1)
        is_open = edges.keys[index] == keys
    return negatives


class PathScorer:
    """A trained network on the triples that may be read, as `kept.evaluation.ranking` asks it."""

    def __init__(
        self, model: Ultra | NBFNet, triples: np.ndarray, world: SplitGraph, device: Any,
        batch_size: int,
    ) -> None:  # fmt: skip
        self.model, self.device, self.batch_size = model, device, batch_size
        self.graph = ReadGraph.of(triples, world, device)

    @torch.no_grad()
    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`."""
        head, relation, tail = triples.to(self.device).unbind(1)
        anchors = tail if direction == "head" else head
        is_head = torch.full_like(anchors, direction == "head", dtype=torch.bool)
        n, size = len(triples), self.batch_size
        parts = [
            path_scores(self.model, self.graph, anchors[rows], relation[rows], is_head[rows])
            for rows in (slice(start, start + size) for start in range(0, n, size))
        ]
        return torch.cat(parts)
