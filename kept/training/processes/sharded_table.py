"""A table of vectors whose rows are shared out over processes.

Large recommenders do it (Mudigere et al. 2022, "Software-hardware co-design for fast and scalable
training of deep learning recommendation models", ISCA, section 3: row-wise sharding): each process
asks the owners of the rows that it reads, they answer, and gradients go the same way back. All over
PyTorch's own all-to-all (docs/decisions/0030). Axis legend: row (of the whole table), own (rows of
this process), asked (rows that a process asks for), width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from kept.encoders.base import KnowledgeModel
from kept.errors import ConfigError
from kept.layers.host_table import HostTable, type_of
from kept.layers.part_table import PartTable
from kept.training.processes.together import Processes, rows_over

Space = Callable[..., Tensor]
AT_ONCE = 1 << 21
"""Bytes of each process that go to the first at once, where a table is made whole."""


class ShardedTable(nn.Embedding):
    """Rows r of `n_rows` with r % n == rank, as an embedding of all of them with sparse gradients.

    Every process calls `forward` and `backward` as often as the others. Gradients are those of the
    mean over processes, as `DistributedDataParallel` averages them; moments of a row optimiser lie
    with their rows. `weight` is this process's part, in a state dict too; `gather_table` and
    `local_rows` join and part values by row, so that a table saved whole can be opened by any
    number of processes. Alone it is an embedding. With `on_host` it stays in host memory, as
    `HostTable`.

    >>> table = ShardedTable(5, 2, Processes())
    >>> table(torch.tensor([[4, 4, 1]])).shape, table.gather_table(table.weight.data).shape
    (torch.Size([1, 3, 2]), torch.Size([5, 2]))
    """

    def __init__(
        self, n_rows: int, width: int, together: Processes, *, on_host: bool = False
    ) -> None:
        if n_rows < together.n:
            raise ConfigError(f"{n_rows} rows cannot be shared out over {together.n} processes")
        super().__init__(len(range(together.rank, n_rows, together.n)), width, sparse=True)
        self.num_embeddings = n_rows
        self.together, self.on_host = together, on_host

    @classmethod
    def of(cls, table: nn.Embedding, together: Processes) -> ShardedTable:
        """This process's rows of a whole `table`, or a part that has no other.

        Trained or frozen as they are.
        """
        is_part = isinstance(table, PartTable)
        on_host = table.on_host if isinstance(table, PartTable) else isinstance(table, HostTable)
        with torch.device("meta"):  # its own first rows are not wanted
            shared = cls(table.num_embeddings, table.embedding_dim, together, on_host=on_host)
        weight = table.weight.detach()
        full = weight if is_part else shared.local_rows(weight).clone()
        shared.weight = nn.Parameter(full, requires_grad=table.weight.requires_grad)
        return shared

    def forward(self, input: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        """The rows of `input`, on its device; what is read twice crosses once.

        `IndexError` outside the table.
        """
        n, n_rows = self.together.n, self.num_embeddings
        rows, inverse = torch.unique(input, return_inverse=True)
        if len(rows) and not (int(rows[0]) >= 0 and int(rows[-1]) < n_rows):
            raise IndexError(f"rows {int(rows[0])} to {int(rows[-1])} of a table of {n_rows}")
        order = torch.argsort(rows % n, stable=True)
        unique_rows = rows[order].to(self.weight.device)
        n_requested = torch.bincount(unique_rows % n, minlength=n)
        requested, n_incoming = self._exchange_requests(unique_rows, n_requested)
        read = F.embedding(requested // n, self.weight, sparse=True)
        values = read
        if n > 1:
            values = _Crossed.apply(read, n_incoming, n_requested.tolist(), n)  # type: ignore[no-untyped-call]
        values = values.to(input.device)
        return torch.empty_like(values).index_copy(0, order, values)[inverse]

    def _exchange_requests(self, rows: Tensor, n_requested: Tensor) -> tuple[Tensor, list[int]]:
        """The rows that each process asks of this one, below one another, and how many each."""
        if self.together.n == 1:
            return rows, n_requested.tolist()
        n_incoming = torch.empty_like(n_requested)
        _exchange(n_incoming, n_requested)
        counts = n_incoming.tolist()
        requested = rows.new_empty(sum(counts))
        _exchange(requested, rows, counts, n_requested.tolist())
        return requested, counts

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ShardedTable:
        """As any module; `on_host` on the device where the table is."""
        change = type_of(fn, self.weight) if self.on_host else fn
        super()._apply(change, recurse)  # type: ignore[no-untyped-call]
        return self

    # ---- whole tables ----------------------------------------------------------------------
    def local_rows(self, whole: Tensor) -> Tensor:
        """This process's rows of values `[row ...]`: a view `[own ...]`.

        Raises `ConfigError` where they are of a table of another size.
        """
        if len(whole) != self.num_embeddings:
            raise ConfigError(f"{len(whole)} rows for a table of {self.num_embeddings}")
        return whole[self.together.rank :: self.together.n]

    def gather_table(self, shard: Tensor, space: Space = torch.empty) -> Tensor:
        """Values `[own ...]` of all processes, which all call this, as `[row ...]` in host memory.

        The first process has them, in a tensor of `space(shape, dtype=...)`; others `[0 ...]`.
        """
        shard = shard.detach().cpu()
        if self.together.n == 1:
            return shard.clone()
        rank, n = self.together.rank, self.together.n
        whole = (
            shard[:0] if rank else space((self.num_embeddings, *shard.shape[1:]), dtype=shard.dtype)
        )
        most = -(-self.num_embeddings // n)
        n_rows = max(AT_ONCE // max(shard[:1].nbytes, shard.element_size()), 1)
        padded = shard.new_zeros(min(n_rows, most), *shard.shape[1:])
        parts = None if rank else [torch.empty_like(padded) for _ in range(n)]
        for start in range(0, most, n_rows):
            mine = shard[start : start + n_rows]
            padded[: len(mine)] = mine
            distributed.gather(padded, parts, dst=0, group=rows_over("cpu"))
            for from_rank, part in enumerate(parts or ()):
                rows = whole[from_rank::n][start : start + n_rows]
                rows.copy_(part[: len(rows)])
        return whole


def share_tables(model: nn.Module, together: Processes) -> tuple[ShardedTable, ...]:
    """Put a `ShardedTable` in place of each table of `model` with a row for each entity.

    Raises `ConfigError` where there is none, or one with dense gradients.
    """
    tables = entity_tables(model)
    if not tables:
        raise ConfigError(
            f"shard tables: {_title(model)} has no table with a row for each entity; leave it out, "
            "or share out its layers (--shard layers)"
        )
    shared = []
    for name, table in tables.items():
        if table.weight.requires_grad and not table.sparse:
            raise ConfigError(
                f"shard tables: {name} of {_title(model)} has dense gradients; make them sparse "
                "(options.sparse_entities=true), or leave it out"
            )
        shared.append(ShardedTable.of(table, together))
        model.set_submodule(name, shared[-1])
    return tuple(shared)


def entity_tables(model: nn.Module) -> dict[str, nn.Embedding]:
    """The tables of `model` with a row for each entity, by the names of their modules.

    Among them those that were made in parts; a bias of each entity is no table.
    """
    named = model.row_tables() if isinstance(model, KnowledgeModel) else ()
    of_entities = [table.name for table in named if table.of == "entity"]
    names = [name.removesuffix(".weight") for name in of_entities if name.endswith(".weight")]
    modules = {name: model.get_submodule(name) for name in names}
    modules |= {name: part for name, part in model.named_modules() if isinstance(part, PartTable)}
    return {name: table for name, table in modules.items() if isinstance(table, nn.Embedding)}


def _title(model: nn.Module) -> str:
    return type(getattr(model, "encoder", model)).__name__


def _exchange(
    received: Tensor,
    sent: Tensor,
    n_received: list[int] | None = None,
    n_sent: list[int] | None = None,
) -> None:
    """Part of `sent` to each process, parts of all into `received`."""
    over = rows_over(sent.device.type)
    distributed.all_to_all_single(received, sent, n_received, n_sent, group=over)


class _Crossed(torch.autograd.Function):
    """Values `[wanted width]` to those who asked for them; their gradients back, averaged."""

    @staticmethod
    def forward(
        ctx: Any, read: Tensor, n_incoming: Sequence[int], n_requested: Sequence[int], n: int
    ) -> Tensor:
        ctx.n_incoming, ctx.n_requested, ctx.n = n_incoming, n_requested, n
        values = read.new_empty(sum(n_requested), read.shape[1])
        _exchange(values, read.contiguous(), [*n_requested], [*n_incoming])
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        back = gradient.new_empty(sum(ctx.n_incoming), gradient.shape[1])
        _exchange(back, gradient.contiguous(), [*ctx.n_incoming], [*ctx.n_requested])
        return back / ctx.n, None, None, None
