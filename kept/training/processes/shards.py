"""What of a model is shared out over processes while it trains, and how it is whole in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from kept.training.checkpoint import Whole, states_of
from kept.training.config import TrainConfig
from kept.training.optimisers import sparse_parameters
from kept.training.processes.launch import require_several
from kept.training.processes.sharded_layers import own_of, part_again, share_layers, whole_of
from kept.training.processes.sharded_table import ShardedTable, share_tables
from kept.training.processes.together import Losses, Processes


class Shards:
    """The parts of `model` that `config.shard` names, shared out from here on; or none.

    "tables": rows of tables of entities (`ShardedTable`); "layers": all other weights
    (`share_layers`). Every process makes one, of the same model. Raises `ConfigError` where a part
    cannot be shared out.
    """

    def __init__(
        self, model: nn.Module, config: TrainConfig, together: Processes, device: torch.device
    ) -> None:
        require_several(config.shard)
        self._model, self._together = model, together
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
            part_again(self._model)

    # ---- files -----------------------------------------------------------------------------
    def weights(self) -> dict[str, Tensor] | None:
        """All weights, whole; None where nothing is shared out. All processes call it.

        The first one has them; what others have of shared parts is not whole.
        """
        if not (self.tables or self.layers):
            return None
        held = self._model.state_dict(keep_vars=True)
        each = {id(value): value for value in held.values()}  # tied ones once
        whole = {number: self._whole(value, value) for number, value in each.items()}
        return {name: whole[id(value)] for name, value in held.items()}

    def whole(self, optimisers: Mapping[str, Optimizer]) -> Whole | None:
        """`weights` and the states of `optimisers` in the same way."""
        weights = self.weights()
        if weights is None:
            return None
        return Whole(weights, *states_of(self._model, optimisers, self._whole))

    def own(self, held: Tensor, whole: Tensor) -> Tensor:
        """Of a tensor of a file the part that this process has of the parameter `held`: of the
        parameter itself, or of its optimiser's state."""
        table = self._table_of(held)
        if table is None:
            return own_of(whole, held) if self.layers else whole
        return table.own_of(whole) if whole.dim() else whole

    def number(self, norm: Tensor) -> float:
        """A norm over all processes."""
        return float(whole_of(norm) if self.layers else norm)

    def _whole(self, parameter: Tensor, value: Tensor) -> Tensor:
        table = self._table_of(parameter)
        if table is not None:
            return table.whole_of(value) if value.dim() else value
        whole = whole_of(value).detach()
        return whole.cpu() if self._together.is_first else whole.new_empty(0)

    def _table_of(self, parameter: Tensor) -> ShardedTable | None:
        return next((each for each in self.tables if each.weight is parameter), None)
