"""Adagrad with one number a row, for tables whose moments would not fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from kept.errors import ConfigError
from kept.training.row_adam import RowOptimizer, row_blocks, write_rows


class RowAdagrad(RowOptimizer):
    """Adagrad (Duchi et al. 2011) that adds up the mean square of a row's gradient, one number.

    As the row-wise Adagrad of large recommenders (Mudigere et al. 2022, "Software-hardware
    co-design for fast and scalable training of deep learning recommendation models", ISCA, section
    4.1.4). Rows without a gradient stay unchanged. A row of 384 numbers has a state of 4 bytes,
    where `RowAdam` keeps 3,076. No weight decay.
    """

    def __init__(self, params: Iterable[Any], *, lr: float = 1e-2, eps: float = 1e-8) -> None:
        if lr < 0 or eps <= 0:
            raise ConfigError(f"RowAdagrad needs lr >= 0 and eps > 0; got {lr}, {eps}")
        super().__init__(params, {"lr": lr, "eps": eps})

    def _update(self, table: Tensor, rows: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        """Add up and update block by block: what is read twice is still in the cache."""
        state = self.state[table]
        if not state:
            state["sum"] = torch.zeros(len(table), device=table.device)
        sums = state["sum"]
        for at, change in row_blocks(table, rows, grad):
            sums[at] += change.float().square().mean(1)
            scale = group["lr"] / (sums[at].sqrt() + group["eps"])
            values = table.index_select(0, at)
            write_rows(table, at, values.sub_(change * scale[:, None].to(change.dtype)))
