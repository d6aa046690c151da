"""Tables with a row for each entity, of which a process may make its own rows alone.

`entity_table` makes an embedding; inside `rows_in_parts` it is a `PartTable`, whose rows have the
numbers that they have in the whole table. What is put into a table goes by `put_rows`, which knows
both. Axis legend: row (of the whole table), held (rows of this process), width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from kept.batches import N_SPECIAL_ROWS
from kept.layers.host_table import HostTable

ROWS_AT_ONCE = 1 << 13
"""Rows that are drawn or looked at together. torch draws normal numbers by sixteens, so that blocks
of such a size, one after the other, are the numbers of one draw."""
LEAST = 16
"""Numbers below which torch draws otherwise: no block has fewer, unless the table has."""
_PART: ContextVar[tuple[int, int]] = ContextVar("part", default=(0, 1))


class PartTable(nn.Embedding):
    """Rows r of `n_rows` with r % n == rank, as they are in a whole table.

    It is there to be made and saved in parts, and is not a table that can be read:
    `ShardedTable.of` takes its rows. On torch's meta device it has all rows; `keep_own` lets go of
    others when a file has been put in their place.

    >>> PartTable(5, 2, rank=1, n=2).weight.shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        n_rows: int,
        width: int,
        *,
        rank: int,
        n: int,
        sparse: bool = False,
        on_host: bool = False,
    ) -> None:
        whole = torch.empty(n_rows, width, device="meta")
        super().__init__(n_rows, width, sparse=sparse, _weight=whole)
        self.rank, self.n, self.on_host = rank, n, on_host
        if not torch.empty(0).is_meta:
            self.weight = nn.Parameter(torch.empty(len(self.held), width))
            self.draw(1.0)

    @property
    def held(self) -> range:
        """Its rows of the whole table."""
        return range(self.rank, self.num_embeddings, self.n)

    @torch.no_grad()
    def draw(self, std: float) -> None:
        """Normal numbers, those of a whole table's draw from torch's generator; nothing on meta."""
        if self.weight.is_meta:
            return
        for start, stop in blocks(self.num_embeddings, self.embedding_dim):
            values = self.weight.new_empty(stop - start, self.embedding_dim).normal_(0.0, std)
            first = (self.rank - start) % self.n
            local = values[first :: self.n]
            at = (start + first) // self.n
            self.weight[at : at + len(local)] = local

    def keep_own(self) -> None:
        """Keep this process's rows of a `weight` that has all."""
        local = self.weight.detach()[self.rank :: self.n].clone()
        self.weight = nn.Parameter(local, requires_grad=self.weight.requires_grad)

    def forward(self, input: Tensor) -> NoReturn:
        raise RuntimeError("a part of a table cannot be read; share it out (ShardedTable.of)")


def entity_table(
    n_rows: int, width: int, *, sparse: bool = False, on_host: bool = False
) -> nn.Embedding:
    """An embedding with a row for each entity: the whole, or inside `rows_in_parts` a part.

    `on_host`: as `HostTable`, whose gradients are sparse.
    """
    rank, n = _PART.get()
    if n > 1:
        return PartTable(n_rows, width, rank=rank, n=n, sparse=sparse or on_host, on_host=on_host)
    return HostTable(n_rows, width) if on_host else nn.Embedding(n_rows, width, sparse=sparse)


@contextmanager
def rows_in_parts(rank: int, n: int) -> Iterator[None]:
    """Let tables that are made here have the rows of process `rank` of `n`."""
    token = _PART.set((rank, n))
    try:
        yield
    finally:
        _PART.reset(token)


def held_rows(table: nn.Embedding, first: int, at_once: int) -> Iterator[Int[Tensor, " held"]]:
    """The rows of the whole table from `first` on that `table` holds, at most `at_once` together.

    >>> [rows.tolist() for rows in held_rows(PartTable(9, 1, rank=1, n=2), 3, 2)]
    [[3, 5], [7]]
    """
    rows = table.held if isinstance(table, PartTable) else range(table.num_embeddings)
    after = range(max(first - rows.start + rows.step - 1, 0) // rows.step, len(rows))
    for start in after[::at_once]:
        part = rows[start : start + at_once]
        yield torch.arange(part.start, part.stop, part.step)


@torch.no_grad()
def put_rows(
    table: nn.Embedding, rows: Int[Tensor, " row"], values: Float[Tensor, "row width"]
) -> None:
    """Set these rows of the whole table; those that `table` does not hold are left out."""
    if isinstance(table, PartTable):
        is_held = rows % table.n == table.rank
        rows, values = rows[is_held] // table.n, values[is_held]
    table.weight[rows] = values.to(table.weight)


def no_special_rows(table: nn.Embedding) -> None:
    """Make the special rows zero."""
    rows = torch.arange(min(N_SPECIAL_ROWS, table.num_embeddings))
    put_rows(table, rows, torch.zeros(len(rows), table.embedding_dim))


def blocks(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    """First row and end of blocks of `ROWS_AT_ONCE`, the last one longer rather than too short."""
    start = 0
    while start < n_rows:
        stop = start + ROWS_AT_ONCE
        if (n_rows - stop) * width < LEAST:
            stop = n_rows
        yield start, stop
        start = stop
