"""A step's gather, gradient and update of entity vectors: the table on the GPU, or on the host."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.on_gpu.common import Trial
from kept.layers.host_table import HostTable
from kept.training.row_adagrad import RowAdagrad
from kept.training.row_adam import RowAdam


def run(trial: Trial) -> None:
    """A million rows of 384 numbers, of which a batch reads 20,000."""
    n_rows, n_read = (1000, 100) if trial.small else (1_000_000, 20_000)
    for name, optimiser in (("adam", RowAdam), ("adagrad", RowAdagrad)):
        ms = {}
        for where in ("device", "host"):
            torch.manual_seed(0)
            table: Any = HostTable(n_rows, 384)
            if where == "device":
                table = torch.nn.Embedding.from_pretrained(
                    table.weight.detach().to(trial.device), freeze=False, sparse=True
                )
            rows = torch.randint(n_rows, (n_read,)).to(trial.device)
            update = optimiser([table.weight], lr=0.01)

            def step(table: Any = table, update: Any = update, rows: Any = rows) -> None:
                update.zero_grad(set_to_none=True)
                table(rows).square().mean().backward()
                update.step()

            ms[where] = trial.median_ms(step)
        trial.line(
            optimiser=name, rows=n_rows, read=n_read, device_ms=round(ms["device"], 2),
            host_ms=round(ms["host"], 2), host_over_device=round(ms["host"] / ms["device"], 1),
        )  # fmt: skip
