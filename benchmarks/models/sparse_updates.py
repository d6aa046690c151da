"""Updates of a few rows of a large table, torch's own sparse optimisers, and bare copies.

    python benchmarks/models/sparse_updates.py [--rows 1000000] [--width 200]

The rows of `entity_tables.py --only update`, which has the growth: 4,096 and 20,000 touched rows.
RowAdam and SparseAdam (`equal`: the same table after three steps, RowAdam counting the updates
of the table as SparseAdam does), RowAdagrad and Adagrad on a sparse gradient, which keeps a sum
for each number where ours keeps one for each row, so their tables differ. `copies` only read and
write the rows of the three tables that RowAdam must. One CPU, best of three, JSON lines.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from entity_tables import ROW_OPTIMISERS, sparse_gradient, stepped
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.measuring import Spent, compared, in_turn
from kept.training.row_adam import RowAdam

SPARSE_PEERS: dict[str, tuple[str, Callable[..., torch.optim.Optimizer]]] = {
    "RowAdam": ("SparseAdam", torch.optim.SparseAdam),
    "RowAdagrad": ("sparse Adagrad", torch.optim.Adagrad),
}  # fmt: skip


def is_same_update(n_rows: int = 1000, width: int = 200) -> bool:
    """Whether RowAdam, with one counter for the table, and SparseAdam make the same table.

    With a tiny epsilon, since SparseAdam adds it before the correction of the moments.
    """
    draws = torch.Generator().manual_seed(0)
    start = torch.randn(n_rows, width, generator=draws)
    tables = [nn.Parameter(start.clone()) for _ in range(2)]
    ours = RowAdam(tables[:1], lr=1e-3, eps=1e-12, counter="global")
    peer = torch.optim.SparseAdam(tables[1:], lr=1e-3, eps=1e-12)
    for _ in range(3):
        rows = torch.randperm(n_rows, generator=draws)[:300].sort().values
        values = torch.randn(300, width, generator=draws)
        for table in tables:
            table.grad = sparse_gradient(rows, values, table)
        ours.step()
        peer.step()
    return torch.allclose(*tables, rtol=0, atol=1e-6)


def copied(n_touched: int, n_rows: int, width: int) -> Spent:
    """Rows of three tables read and written again, as numpy copies them: no arithmetic."""
    rows = np.sort(np.random.default_rng(0).choice(n_rows, n_touched, replace=False))
    tables = [np.zeros((n_rows, width), np.float32) for _ in range(3)]

    def copy() -> None:
        for table in tables:
            table[rows] = np.take(table, rows, axis=0)

    copy()
    return in_turn([copy], 3)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    n_rows, width = options.rows, options.width
    for n_touched in (4_096, 20_000):
        floor = copied(n_touched, n_rows, width)
        for name, optimiser_kind in ROW_OPTIMISERS.items():
            peer, peer_kind = SPARSE_PEERS[name]
            ours = stepped(optimiser_kind, n_touched, n_rows, width)
            theirs = stepped(peer_kind, n_touched, n_rows, width)
            sizes = {"ours": name, "touched": n_touched, "rows": n_rows, "width": width}
            equal = is_same_update() if name == "RowAdam" else None
            compared("sparse update", ours, theirs, **sizes, peer=peer, equal=equal)
            if name == "RowAdam":
                compared("sparse update", ours, floor, **sizes, peer="copies", equal=None)


if __name__ == "__main__":
    main()
