"""A table of vectors whose rows are shared out over processes.

Large recommenders do it (Mudigere et al. 2022, "Software-hardware co-design for fast and scalable
training of deep learning recommendation models", ISCA, section 3: row-wise sharding): each process
asks the owners of the rows that it reads, they answer, and gradients go the same way back. All over
PyTorch's own all-to-all (docs/decisions/0030). Axis legend: row (of the whole table), own (rows of
this process), asked (rows that a process asks for), width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from kept.errors import ConfigError
from kept.training.processes.together import Processes


class ShardedTable(nn.Embedding):
    """Rows r of `n_rows` with r % n == rank, as an embedding of all of them with sparse gradients.

    Every process calls `forward` and `backward` as often as the others. Gradients are those of the
    mean over processes, as `DistributedDataParallel` averages them; moments of a row optimiser lie
    with their rows. `weight` is this process's part, in a state dict too; `whole_of` and `own_of`
    join and part values by row, so that a table saved whole can be opened by any number of
    processes. Alone it is an embedding.

    >>> table = ShardedTable(5, 2, Processes())
    >>> table(torch.tensor([[4, 4, 1]])).shape, table.whole_of(table.weight.data).shape
    (torch.Size([1, 3, 2]), torch.Size([5, 2]))
    """

    def __init__(self, n_rows: int, width: int, together: Processes) -> None:
        if n_rows < together.n:
            raise ConfigError(f"{n_rows} rows cannot be shared out over {together.n} processes")
        super().__init__(len(range(together.rank, n_rows, together.n)), width, sparse=True)
        self.n_rows, self.together = n_rows, together

    def forward(self, input: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        """The rows of `input`; what is read twice crosses once. `IndexError` outside the table."""
        rows, places = torch.unique(input, return_inverse=True)
        if len(rows) and not (int(rows[0]) >= 0 and int(rows[-1]) < self.n_rows):
            raise IndexError(f"rows {int(rows[0])} to {int(rows[-1])} of a table of {self.n_rows}")
        n = self.together.n
        order = torch.argsort(rows % n, stable=True)
        asked = rows[order]
        n_asked = torch.bincount(asked % n, minlength=n)
        wanted, n_wanted = self._told(asked, n_asked)
        read = F.embedding(wanted // n, self.weight, sparse=True)
        values = read
        if n > 1:
            values = _Crossed.apply(read, n_wanted, n_asked.tolist(), n)  # type: ignore[no-untyped-call]
        found: Tensor = torch.empty_like(values).index_copy(0, order, values)[places]
        return found

    def _told(self, asked: Tensor, n_asked: Tensor) -> tuple[Tensor, list[int]]:
        """The rows that each process asks of this one, below one another, and how many each."""
        if self.together.n == 1:
            return asked, n_asked.tolist()
        n_wanted = torch.empty_like(n_asked)
        distributed.all_to_all_single(n_wanted, n_asked)
        counts = n_wanted.tolist()
        wanted = asked.new_empty(sum(counts))
        distributed.all_to_all_single(wanted, asked, counts, n_asked.tolist())
        return wanted, counts

    # ---- whole tables ----------------------------------------------------------------------
    def own_of(self, whole: Tensor) -> Tensor:
        """This process's rows of values `[row ...]`: `[own ...]`.

        Raises `ConfigError` where they are of a table of another size.
        """
        if len(whole) != self.n_rows:
            raise ConfigError(f"{len(whole)} rows for a table of {self.n_rows}")
        return whole[self.together.rank :: self.together.n].clone()

    def whole_of(self, own: Tensor) -> Tensor:
        """Values `[own ...]` of all processes, which all call this, as `[row ...]`."""
        if self.together.n == 1:
            return own.clone()
        n, whole = self.together.n, own.new_empty(self.n_rows, *own.shape[1:])
        most = -(-self.n_rows // n)
        padded = own.new_zeros(most, *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(n)]
        distributed.all_gather(parts, padded)
        for rank, part in enumerate(parts):
            mine = whole[rank::n]
            mine.copy_(part[: len(mine)])
        return whole


class _Crossed(torch.autograd.Function):
    """Values `[wanted width]` to those who asked for them; their gradients back, averaged."""

    @staticmethod
    def forward(
        ctx: Any, read: Tensor, n_wanted: Sequence[int], n_asked: Sequence[int], n: int
    ) -> Tensor:
        ctx.n_wanted, ctx.n_asked, ctx.n = n_wanted, n_asked, n
        values = read.new_empty(sum(n_asked), read.shape[1])
        distributed.all_to_all_single(values, read.contiguous(), n_asked, n_wanted)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        back = gradient.new_empty(sum(ctx.n_wanted), gradient.shape[1])
        distributed.all_to_all_single(back, gradient.contiguous(), ctx.n_wanted, ctx.n_asked)
        return back / ctx.n, None, None, None
