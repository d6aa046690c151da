"""`train_shards.py OUT.pt STEPS [FROM.pt]`: a table and a layer, in one process or one of several.

Each process reads its share of every batch; what is saved is whole, whatever the number.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from kept.randomness import torch_generator
from kept.training.processes.sharded_table import ShardedTable
from kept.training.processes.together import leave, meet
from kept.training.row_adagrad import RowAdagrad

N_ROWS, WIDTH, BATCH = 23, 5, 8


def run(out: Path, n_steps: int, start: Path | None) -> None:
    together = meet("cpu")
    table, layer = ShardedTable(N_ROWS, WIDTH, together), nn.Linear(WIDTH, 1)
    given: dict[str, Any] = {"step": 0, "sum": torch.zeros(N_ROWS)}
    if start is None:
        draws = torch_generator(0, "first weights")
        given["table"] = torch.randn(N_ROWS, WIDTH, generator=draws)
        given["layer"] = {
            name: torch.randn(value.shape, generator=draws)
            for name, value in layer.state_dict().items()
        }
    else:
        given = torch.load(start)
    table.weight.data = table.own_of(given["table"])
    layer.load_state_dict(given["layer"])
    rows = RowAdagrad([table.weight], lr=0.1)
    rows.state[table.weight]["sum"] = table.own_of(given["sum"])
    dense = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(given["step"], n_steps):
        draws = torch_generator(1, "batch", step)
        ids = torch.randint(N_ROWS, (BATCH, 3), generator=draws)
        targets = torch.randn(BATCH, generator=draws)
        share = slice(
            together.rank * BATCH // together.n, (together.rank + 1) * BATCH // together.n
        )
        errors = layer(table(ids[share]).sum(1))[:, 0] - targets[share]
        for optimiser in (rows, dense):
            optimiser.zero_grad(set_to_none=True)
        errors.square().mean().backward()
        for parameter in layer.parameters() if together.n > 1 else ():
            assert parameter.grad is not None
            distributed.all_reduce(parameter.grad)
            parameter.grad /= together.n
        rows.step()
        dense.step()
    whole = {
        "step": n_steps,
        "table": table.whole_of(table.weight.data),
        "sum": table.whole_of(rows.state[table.weight]["sum"]),
        "layer": layer.state_dict(),
    }
    if together.is_first:
        torch.save(whole, out)
    leave()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
