"""Sums of DistMult messages: what a layer of NBFNet or ULTRA spends its time on.

Messages with the same receiver and type are summed before the type's vector multiplies them. All
index tables of a pass and of its gradient are sorted beforehand, so that both are sums of
neighbouring rows in a fixed order, on any device, without waiting for it.

Axis legend: row (a state that receives), input (a state that sends), vector (of a type), message,
group (messages of one row and type), batch, node, type, edge, width.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import embedding_bag

Ids = NDArray[np.int32]
CACHE_NUMBERS = 1 << 17
"""Numbers of a block of messages: with what is made of them they fit a second-level cache."""


@dataclass(frozen=True)
class Block:
    """Neighbouring rows, their groups and the messages of these."""

    rows: slice
    groups: slice
    messages: slice


@dataclass(frozen=True, eq=False)
class Messages:
    """Which inputs each row sums, in groups of one type, ordered by row, then by type.

    `inputs [message]`, `starts [group+1]`: where a group begins among them; `vectors [group]`: its
    type's vector; `of_row [row+1]`: where a row's groups begin. For gradients: the groups that each
    input is in (`by_input [message]`, `of_input [input+1]`) and that each vector multiplies
    (`by_vector [group]`, `of_vector [vector+1]`).
    """

    inputs: Int[Tensor, " message"]
    starts: Int[Tensor, " group+1"]
    vectors: Int[Tensor, " group"]
    of_row: Int[Tensor, " row+1"]
    by_input: Int[Tensor, " message"]
    of_input: Int[Tensor, " input+1"]
    by_vector: Int[Tensor, " group"]
    of_vector: Int[Tensor, " vector+1"]

    @classmethod
    def of(
        cls, inputs: Ids, starts: Ids, vectors: Ids, of_row: Ids, *, n_inputs: int, n_vectors: int
    ) -> Messages:
        """Sort the tables of the gradient too.

        >>> ids = [np.array(i, np.int32) for i in ([0, 1, 1], [0, 2, 3], [0, 1], [0, 1, 2])]
        >>> Messages.of(*ids, n_inputs=2, n_vectors=2).by_input.tolist()
        [0, 0, 1]
        """
        tables = (
            *(inputs, starts, vectors, of_row),
            *by_column(inputs, starts, n_inputs),
            *by_column(vectors, np.arange(len(vectors) + 1, dtype=np.int32), n_vectors),
        )
        return cls(*map(torch.from_numpy, tables))

    def repeated(self, n: int) -> Messages:
        """The same messages for each of `n` questions, whose rows, inputs and vectors follow."""
        if n not in self._repeats:
            self._repeats[n] = self if n == 1 else self._repeat(n)
        return self._repeats[n]

    @cached_property
    def _repeats(self) -> dict[int, Messages]:
        """The results of `repeated`, by number."""
        return {}

    def _repeat(self, n: int) -> Messages:
        sizes = {
            "inputs": len(self.of_input) - 1,
            "starts": len(self.inputs),
            "vectors": len(self.of_vector) - 1,
            "of_row": len(self.vectors),
            "by_input": len(self.vectors),
            "of_input": len(self.inputs),
            "by_vector": len(self.vectors),
            "of_vector": len(self.vectors),
        }
        repeats = torch.arange(n, dtype=torch.int32, device=self.inputs.device)[:, None]
        tables = []
        for name, size in sizes.items():
            table: Tensor = getattr(self, name)
            is_bounds = name in ("starts", "of_row", "of_input", "of_vector")
            ids = ((table[:-1] if is_bounds else table) + repeats * size).flatten()
            tables.append(torch.cat([ids, ids.new_full((1,), n * size)]) if is_bounds else ids)
        return Messages(*tables)

    def to(self, device: torch.device) -> Messages:
        """These tables on a device."""
        return Messages(*(on_device(getattr(self, field.name), device) for field in fields(self)))

    def blocks(self, width: int) -> list[Block]:
        """All rows in order, in parts that fit the cache of a CPU; one part on other devices."""
        of_row, size = self.of_row, max(1, CACHE_NUMBERS // width)
        n_rows = len(of_row) - 1
        if of_row.device.type != "cpu":
            n_groups, n_messages = len(self.vectors), len(self.inputs)
            return [Block(slice(0, n_rows), slice(0, n_groups), slice(0, n_messages))]
        full = torch.arange(0, max(1, len(self.vectors)), size, dtype=torch.int32)[1:]
        ends_of_rows = [torch.tensor([0]), torch.searchsorted(of_row, full), torch.tensor([n_rows])]
        rows = torch.unique(torch.cat(ends_of_rows))
        groups = of_row[rows]
        slices = (_neighbours(bounds) for bounds in (rows, groups, self.starts[groups]))
        return [Block(*parts) for parts in zip(*slices, strict=True)]

    @cached_property
    def groups(self) -> Int[Tensor, " group"]:
        """The groups in order."""
        return torch.arange(len(self.vectors), dtype=torch.int32, device=self.inputs.device)

    @cached_property
    def row_of_group(self) -> Int[Tensor, " group"]:
        """The row that each group belongs to."""
        counts = self.of_row.diff()
        rows = torch.arange(len(counts), dtype=torch.int32, device=self.inputs.device)
        return rows.repeat_interleave(counts, output_size=len(self.vectors))


def on_device(values: Tensor, device: torch.device) -> Tensor:
    """The same values on a device; the host does not wait until they are there."""
    if values.device.type == "cpu" and device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def by_column(columns: Ids, starts: Ids, n_columns: int) -> tuple[Ids, Ids]:
    """The rows of a sparse table in the order of its columns, and where each column begins.

    Row i has the `columns` from `starts[i]` to `starts[i + 1]`; a counting sort, in linear time.
    """
    shape = (len(starts) - 1, n_columns)
    table = sparse.csr_matrix((np.ones(len(columns), np.bool_), columns, starts), shape=shape)
    other = table.tocsc()
    return np.asarray(other.indices, np.int32), np.asarray(other.indptr, np.int32)


def summed_messages(
    states: Float[Tensor, "input width"], vectors: Float[Tensor, "vector width"], messages: Messages
) -> Float[Tensor, "row width"]:
    """For every row the sum over its messages of the input's state times the type's vector."""
    return _SummedMessages.apply(states, vectors, messages)  # type: ignore[no-untyped-call]


class _SummedMessages(Function):
    @staticmethod
    def forward(context: Any, states: Tensor, vectors: Tensor, messages: Messages) -> Tensor:
        grouped = states.new_empty(len(messages.vectors), states.shape[1])
        sums = states.new_empty(len(messages.of_row) - 1, states.shape[1])
        for block in messages.blocks(states.shape[1]):
            grouped[block.groups], sums[block.rows] = sums_in(block, states, vectors, messages)
        context.save_for_backward(grouped, vectors)
        context.messages = messages
        return sums

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        grouped, vectors = context.saved_tensors
        messages: Messages = context.messages
        changes = gradient.index_select(0, messages.row_of_group)
        of_vectors = bag(grouped * changes, messages.by_vector, messages.of_vector)
        changes.mul_(vectors.index_select(0, messages.vectors))
        return bag(changes, messages.by_input, messages.of_input), of_vectors, None


def sums_in(
    block: Block, states: Tensor, vectors: Tensor, messages: Messages
) -> tuple[Float[Tensor, "group width"], Float[Tensor, "row width"]]:
    """The sums of a block's groups, and of its rows."""
    starts, of_row = (
        _from_zero(messages.starts, block.groups), _from_zero(messages.of_row, block.rows)
    )  # fmt: skip
    grouped = bag(states, messages.inputs[block.messages], starts)
    products = vectors.index_select(0, messages.vectors[block.groups]).mul_(grouped)
    return grouped, bag(products, messages.groups[: len(products)], of_row)


def _neighbours(bounds: Tensor) -> list[slice]:
    """From each bound to the next."""
    return [slice(start, end) for start, end in pairwise(bounds.tolist())]


def _from_zero(bounds: Tensor, part: slice) -> Tensor:
    """The bounds of a part of the rows, counted from its first."""
    some = bounds[part.start : part.stop + 1]
    return some - some[0]


def bag(values: Tensor, ids: Tensor, starts: Tensor) -> Tensor:
    """The sums of `values [value width]` at the ids from each start to the next."""
    return embedding_bag(ids, values, starts, mode="sum", include_last_offset=True)


def summed_by_question(
    states: Float[Tensor, "batch node width"],
    vectors: Float[Tensor, "batch type width"],
    messages: Messages,
) -> Float[Tensor, "batch node width"]:
    """The sums of the same messages for every question of a batch.

    On a CPU as many questions at once as fit the cache, on other devices all.
    """
    size = max(1, len(messages.vectors) * states.shape[2])
    step = max(1, CACHE_NUMBERS // size) if states.device.type == "cpu" else len(states)
    if not len(states):
        return states
    sums = [
        summed_messages(some.flatten(0, 1), types.flatten(0, 1), messages.repeated(len(some)))
        for some, types in zip(torch.split(states, step), torch.split(vectors, step), strict=True)
    ]
    return torch.cat(sums).view(states.shape)
