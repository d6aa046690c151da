"""Which states of which nodes the answers depend on, layer by layer; the others are not computed.

A node that a question's anchor has not reached after some layers has the same state in all
questions with the same relation vectors: a *background*, computed once for all of them. From the
candidates backwards, a layer computes only what the next one reads. Scores are those of all states,
up to rounding. Planned on the host from ids alone, before any state is computed.

Axis legend: batch, kind (of relation vectors), question (the batch, then the backgrounds of each
kind), node, candidate, row (a node of a question whose state a layer computes), input (a row of
the layer before).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.autograd import Function

from kept.kge.ultra.messages import Messages, bag, by_column

Flags = NDArray[np.bool_]
Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class LayerRows:
    """A layer's rows: the messages they sum, and the input of the same node (`previous [row]`).

    `by_previous [row]`, `of_previous [input+1]`: rows in the order of these, for gradients.
    `anchors [anchor]`: the rows of anchors, of the questions `questions [anchor]`.
    """

    messages: Messages
    previous: Int[Tensor, " row"]
    by_previous: Int[Tensor, " row"]
    of_previous: Int[Tensor, " input+1"]
    anchors: Int[Tensor, " anchor"]
    questions: Int[Tensor, " anchor"]

    def anchors_in(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The anchors among some rows, counted from the first of these, and their questions."""
        is_there = (self.anchors >= rows.start) & (self.anchors < rows.stop)
        return self.anchors[is_there] - rows.start, self.questions[is_there]


@dataclass(frozen=True, eq=False)
class NeededRows:
    """The rows of every layer, and the last layer's row of each answer `[batch candidate]`.

    The inputs of the first layer are the anchors of the batch, in order, and a row of zeros.
    """

    layers: Sequence[LayerRows]
    answers: Int[Tensor, "batch candidate"]


def needed_rows(
    graph: Messages,
    anchors: NDArray[np.int64],
    kinds: NDArray[np.int64],
    candidates: NDArray[np.int64] | None,
    n_layers: int,
) -> NeededRows:
    """Plan the layers for questions about `anchors [batch]` with the vectors of `kinds [batch]`.

    `graph` has one question's messages between nodes; answers are `candidates [batch candidate]`,
    or all nodes.
    """
    plan = _Plan(graph, anchors, kinds)
    reached = plan.reached_after(n_layers)
    needed = plan.needed_in(candidates, reached)
    row_of, layers = plan.first_inputs(), []
    n_inputs = len(anchors) + 1
    for flags, reached_now in zip(needed, reached[1:], strict=True):
        layers.append(plan.layer(flags, row_of, n_inputs))
        row_of = plan.row_of(flags, reached_now)
        if len(layers) == 1:  # the background is one and the same row after the first layer
            row_of[row_of < 0] = np.count_nonzero(flags) - 1
        n_inputs = int(np.count_nonzero(flags))
    n = len(anchors)
    answers = row_of[:n] if candidates is None else row_of[np.arange(n)[:, None], candidates]
    return NeededRows(layers, torch.from_numpy(np.ascontiguousarray(answers)))


class _Plan:
    """The tables of a graph and a batch that the planning of all layers reads."""

    def __init__(
        self, graph: Messages, anchors: NDArray[np.int64], kinds: NDArray[np.int64]
    ) -> None:
        self.inputs, self.starts, self.types, self.of_node = (
            part.numpy() for part in (graph.inputs, graph.starts, graph.vectors, graph.of_row)
        )
        self.n_nodes, self.n_types = len(self.of_node) - 1, len(graph.of_vector) - 1
        self.edges_of_node = self.starts[self.of_node]
        self.anchors, self.kinds, self.n = anchors, kinds, len(anchors)
        self.n_kinds = int(kinds.max(initial=-1)) + 1
        self.kind_of_question = np.concatenate([kinds, np.arange(self.n_kinds)]).astype(np.int32)
        ones = np.ones(len(self.inputs), np.bool_)
        shape = (self.n_nodes, self.n_nodes)
        self.senders = sparse.csr_matrix((ones, self.inputs, self.edges_of_node), shape=shape)
        self.receivers = self.senders.T.tocsr()

    def reached_after(self, n_layers: int) -> list[Flags]:
        """Which nodes `[batch node]` each question has reached after 0, 1, … layers."""
        flags = np.zeros((self.n_nodes, self.n), np.bool_)
        flags[self.anchors, np.arange(self.n)] = True
        reached = [flags]
        for _ in range(n_layers):
            reached.append(reached[-1] | (self.senders @ reached[-1]))
        return [np.ascontiguousarray(flags.T) for flags in reached]

    def needed_in(self, candidates: NDArray[np.int64] | None, reached: list[Flags]) -> list[Flags]:
        """Which rows `[question node]` each layer computes, the first layer's first."""
        flags = np.zeros((self.n + self.n_kinds, self.n_nodes), np.bool_)
        if candidates is None:
            flags[: self.n] = True
        else:
            flags[np.arange(self.n)[:, None], candidates] = True
        needed: list[Flags] = []
        for i in range(len(reached) - 1, 0, -1):
            if needed:
                flags = flags | np.ascontiguousarray((self.receivers @ flags.T).T)
            unreached = flags[: self.n] & ~reached[i]
            flags[: self.n] &= reached[i]
            for kind in range(self.n_kinds):
                flags[self.n + kind] |= unreached[self.kinds == kind].any(0)
            needed.append(flags.copy())
        background = needed[-1][self.n :]
        has_background = bool(background.any())
        background[:] = False
        background[-1:, -1:] = has_background
        return needed[::-1]

    def first_inputs(self) -> Ids:
        """The row of zeros everywhere but at the anchors, `[question node]`."""
        row_of = np.full((self.n + self.n_kinds, self.n_nodes), self.n, np.int32)
        row_of[np.arange(self.n), self.anchors] = np.arange(self.n)
        return row_of

    def row_of(self, flags: Flags, reached: Flags) -> Ids:
        """The row that has the state of each node, `[question node]`; -1: not computed."""
        row_of = np.full(flags.shape, -1, np.int32)
        row_of[flags] = np.arange(np.count_nonzero(flags), dtype=np.int32)
        np.copyto(row_of[: self.n], row_of[self.n + self.kinds], where=~reached)
        return row_of

    def layer(self, flags: Flags, row_of: Ids, n_inputs: int) -> LayerRows:
        """The rows with `flags [question node]`, whose inputs have the rows `row_of`."""
        places = np.flatnonzero(flags)
        questions, nodes = (part.astype(np.int32) for part in np.divmod(places, self.n_nodes))
        n_edges, n_groups = (
            bounds[nodes + 1] - bounds[nodes] for bounds in (self.edges_of_node, self.of_node)
        )
        edges, groups = (
            _ranges(bounds[nodes], counts)
            for bounds, counts in ((self.edges_of_node, n_edges), (self.of_node, n_groups))
        )
        first_edges = _bounds(n_edges)
        senders = np.repeat(questions * np.int32(self.n_nodes), n_edges) + self.inputs[edges]
        shifts = np.repeat(first_edges[:-1] - self.edges_of_node[nodes], n_groups)
        starts = np.append(self.starts[groups] + shifts, first_edges[-1:]).astype(np.int32)
        kinds = self.kind_of_question[questions] * np.int32(self.n_types)
        previous = row_of.ravel()[places]
        by_previous, of_previous = by_column(
            previous, np.arange(len(previous) + 1, dtype=np.int32), n_inputs
        )
        is_anchor = flags[np.arange(self.n), self.anchors]
        anchor_places = np.arange(self.n) * self.n_nodes + self.anchors
        return LayerRows(
            Messages.of(
                row_of.ravel()[senders],
                starts,
                self.types[groups] + np.repeat(kinds, n_groups),
                _bounds(n_groups),
                n_inputs=n_inputs,
                n_vectors=self.n_types * self.n_kinds,
            ),
            torch.from_numpy(previous),
            torch.from_numpy(by_previous),
            torch.from_numpy(of_previous),
            torch.from_numpy(np.searchsorted(places, anchor_places[is_anchor])),
            torch.from_numpy(np.flatnonzero(is_anchor)),
        )


def previous_states(
    states: Float[Tensor, "input width"], rows: LayerRows
) -> Float[Tensor, "row width"]:
    """The state of each row's node before the layer; its gradient is summed in a fixed order."""
    return _PreviousStates.apply(states, rows)  # type: ignore[no-untyped-call]


class _PreviousStates(Function):
    @staticmethod
    def forward(context: Any, states: Tensor, rows: LayerRows) -> Tensor:
        context.rows = rows
        return states.index_select(0, rows.previous)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return bag(gradient, context.rows.by_previous, context.rows.of_previous), None


def _ranges(starts: Ids, counts: Ids) -> Ids:
    """The numbers from each start, as many as its count, one range after another."""
    shifts = np.repeat(starts - _bounds(counts)[:-1], counts)
    return np.asarray(shifts + np.arange(len(shifts), dtype=np.int32), np.int32)


def _bounds(counts: Ids) -> Ids:
    """Where ranges of these lengths begin, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
