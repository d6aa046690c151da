"""Adam for large tables of which a batch touches few rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from kept.errors import ConfigError

Counter = Literal["row", "global"]
ROWS_AT_ONCE = 256
"""On a CPU: as many as its cache holds with their moments."""


class RowOptimizer(Optimizer, ABC):
    """Abstract: updates the rows of tables that have a gradient; all others stay unchanged."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every touched row."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, *rows_with_gradients(table.grad), group)
        return loss

    @abstractmethod
    def _update(self, table: Tensor, rows: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        """Update these rows of a table."""


class RowAdam(RowOptimizer):
    """Adam (Kingma and Ba 2015) on the rows that have a gradient; all others stay unchanged.

    A row is touched when it is in the sparse gradient, or when its dense gradient is not zero.
    `counter`: the step number of bias correction: "row" counts the row's own updates; "global"
    counts all updates of the table, as CoLAKE's parameter server does, so that rows seen late get
    small corrections. No weight decay. State (moments and counters) is in `state_dict`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        counter: Counter = "row",
    ) -> None:
        if lr < 0 or eps <= 0 or not all(0 <= beta < 1 for beta in betas):
            raise ConfigError(
                f"RowAdam needs lr >= 0, eps > 0 and betas in [0, 1); got {lr}, {eps}, {betas}"
            )
        if counter not in ("row", "global"):
            raise ConfigError(f"counter is {counter!r}; use 'row' or 'global'")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "counter": counter})

    def _update(self, table: Tensor, rows: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[table]
        if not state:
            n_counters = len(table) if group["counter"] == "row" else 1
            # float32 under the name "step": that is the entry which loading never casts
            state["step"] = torch.zeros(n_counters, dtype=torch.float32, device=table.device)
            state["exp_avg"] = torch.zeros_like(table)
            state["exp_avg_sq"] = torch.zeros_like(table)
        beta1, beta2 = group["betas"]
        if group["counter"] == "row":
            state["step"][rows] += 1
            step = state["step"][rows]
        else:
            state["step"] += 1
            step = state["step"].expand(len(rows))
        # float64 powers: 1 - 0.999^t loses half its digits in float32 at small t
        step = step.double().view(-1, *[1] * (table.dim() - 1))
        correction1, correction2 = 1 - beta1**step, (1 - beta2**step).sqrt()
        rate = (group["lr"] * correction2 / correction1).to(table.dtype)
        eps = (group["eps"] * correction2).to(table.dtype)
        tables = (table, state["exp_avg"], state["exp_avg_sq"])
        for at, change, own_rate, own_eps in row_blocks(table, rows, grad, rate, eps):
            values, mean, square = (each.index_select(0, at) for each in tables)
            mean.mul_(beta1).add_(change, alpha=1 - beta1)
            square.mul_(beta2).addcmul_(change, change, value=1 - beta2)
            write_rows(state["exp_avg"], at, mean)
            write_rows(state["exp_avg_sq"], at, square)
            # in place: all three are copies of the touched rows
            values.addcdiv_(mean.mul_(own_rate), square.sqrt_().add_(own_eps), value=-1)
            write_rows(table, at, values)


def row_blocks(table: Tensor, *columns: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Blocks of `columns`, one entry for each updated row: all at once but on a CPU."""
    n = ROWS_AT_ONCE if table.device.type == "cpu" else max(len(columns[0]), 1)
    return zip(*(torch.split(column, n) for column in columns), strict=True)


def write_rows(table: Tensor, rows: Tensor, values: Tensor) -> None:
    """Put `values` in the place of distinct `rows` of a table, without a gradient.

    On a CPU by numpy, which copies a row at once: `index_copy_` takes two to four times as long.
    """
    if table.device.type == "cpu" and table.dtype in _OF_NUMPY:
        table.detach().numpy()[rows.numpy()] = values.numpy()
    else:
        table.index_copy_(0, rows, values)


_OF_NUMPY = (torch.float32, torch.float64, torch.float16)


def rows_with_gradients(grad: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct row numbers of a gradient of a table, and their gradients."""
    if grad.is_sparse:
        grad = grad.coalesce()
        return grad.indices()[0], grad.values()
    rows = grad.flatten(1).any(dim=1).nonzero().squeeze(1)
    return rows, grad[rows]
