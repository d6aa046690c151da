"""What of a model is shared out over processes while it trains, and how it is whole in files."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from kept.layers.part_table import rows_in_parts
from kept.training.checkpoint import LEFTOVERS, GatheredState, states_of, tensors_of
from kept.training.config import TrainConfig
from kept.training.optimisers import sparse_parameters
from kept.training.processes.launch import rank_and_size, require_several
from kept.training.processes.sharded_layers import (
    gather_table,
    local_rows,
    reshard,
    share_layers,
)
from kept.training.processes.sharded_table import ShardedTable, share_tables
from kept.training.processes.together import Losses, Processes
from kg_loaders.disk.write_errors import write_errors

SMALL = 1 << 20
"""Bytes of a tensor below which it lies in memory where it is made whole."""


def tables_in_parts(config: TrainConfig) -> AbstractContextManager[None]:
    """A context in which models are made with this process's rows alone of the tables that
    `config` shares out."""
    return rows_in_parts(*rank_and_size()) if "tables" in config.shard else nullcontext()


class Shards:
    """The parts of `model` that `config.shard` names, shared out from here on; or none.

    "tables": rows of tables of entities (`ShardedTable`); "layers": all other weights
    (`share_layers`). Every process makes one, of the same model, whole or
    made in `tables_in_parts`. What is made whole lies in files in `room`. Raises `ConfigError`
    where a part cannot be shared out.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        together: Processes,
        device: torch.device,
        room: Path,
    ) -> None:
        require_several(config.shard)
        self._model, self._together, self._room = model, together, room
        self.layers = "layers" in config.shard
        self.tables: tuple[ShardedTable, ...] = ()
        if "tables" in config.shard:
            self.tables = share_tables(model, together)
        if self.layers:
            whole = [*sparse_parameters(model), *self.rows]
            share_layers(model, together, device, whole=whole)

    @property
    def rows(self) -> list[nn.Parameter]:
        """This process's rows of tables; their gradients are those of all processes."""
        weights: list[Any] = [table.weight for table in self.tables]
        return weights

    def apart(
        self, tables: Sequence[nn.Parameter]
    ) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Of tables with sparse gradients those that are whole, and those of which there are
        `rows`."""
        mine = {id(table) for table in self.rows}
        whole = [table for table in tables if id(table) not in mine]
        return whole, [table for table in tables if id(table) in mine]

    def joined(self, tables: Sequence[nn.Parameter]) -> nn.Module:
        """`Processes.joined`; layers that are shared out average gradients by themselves."""
        if self.layers:
            return Losses(self._model)
        return self._together.joined(self._model, [*tables, *self.rows])

    def evaluated(self) -> None:
        """Called after forward passes without a backward pass."""
        if self.layers:
            reshard(self._model)

    # ---- files -----------------------------------------------------------------------------
    def weights(self) -> dict[str, Tensor] | None:
        """All weights, whole; None where nothing is shared out. All processes call it.

        The first one has them; what others have of shared parts is not whole.
        """
        if not (self.tables or self.layers):
            return None
        weights = tensors_of(self._model)
        each = {id(value): value for value in weights.values()}  # tied ones once
        whole = {number: self._whole(value, value) for number, value in each.items()}
        return {name: whole[id(value)] for name, value in weights.items()}

    def whole(self, optimisers: Mapping[str, Optimizer]) -> GatheredState | None:
        """`weights` and the states of `optimisers` in the same way."""
        weights = self.weights()
        if weights is None:
            return None
        return GatheredState(weights, *states_of(self._model, optimisers, self._whole))

    def local_part(self, tensor: Tensor, whole: Tensor) -> Tensor:
        """Of a tensor of a file the part that this process has of the parameter `tensor`: of the
        parameter itself, or of its optimiser's state."""
        table = self._table_of(tensor)
        if table is None:
            return local_rows(whole, tensor) if self.layers else whole
        return table.local_rows(whole) if whole.dim() else whole

    def number(self, norm: Tensor) -> float:
        """A norm over all processes."""
        return float(gather_table(norm) if self.layers else norm)

    def _whole(self, parameter: Tensor, value: Tensor) -> Tensor:
        table = self._table_of(parameter)
        if table is not None:
            return table.gather_table(value, self._space) if value.dim() else value
        whole = gather_table(value)
        if not self._together.is_first:
            return torch.empty(0)
        is_shared = whole is not value
        return self._space(whole.shape, whole.dtype).copy_(whole) if is_shared else value.detach()

    def _space(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Space for a tensor in a file that is gone with it: memory that the system may take back.

        What is small lies in memory as usual.
        """
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes < SMALL:
            return torch.empty(*shape, dtype=dtype)
        self._room.mkdir(exist_ok=True)
        with (
            write_errors(self._room),
            NamedTemporaryFile(dir=self._room, prefix=LEFTOVERS) as file,
        ):
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and none later
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            space = torch.from_file(file.name, shared=True, size=math.prod(shape), dtype=dtype)
        return space.view(*shape)

    def _table_of(self, parameter: Tensor) -> ShardedTable | None:
        return next((each for each in self.tables if each.weight is parameter), None)
