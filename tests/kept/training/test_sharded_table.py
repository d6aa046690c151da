"""A table of which each process has its rows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kept.errors import ConfigError
from kept.layers.host_table import HostTable
from kept.training.processes.sharded_table import ShardedTable
from kept.training.processes.together import Processes


def test_alone_it_is_an_embedding() -> None:
    table = ShardedTable(7, 3, Processes())
    rows = torch.tensor([[6, 0, 6], [2, 2, 1]])
    assert torch.equal(table(rows), table.weight[rows])
    assert torch.equal(table(torch.tensor(4)), table.weight[4])
    table(rows).sum().backward()
    gradient = table.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    assert gradient.to_dense().sum(1).tolist() == [3, 3, 6, 0, 0, 0, 6]
    with pytest.raises(IndexError, match="rows 2 to 7 of a table of 7"):
        table(torch.tensor([2, 7]))


def test_rows_are_shared_out_in_turn() -> None:
    whole = torch.arange(10.0).reshape(5, 2)
    tables = [ShardedTable(5, 2, Processes(rank, 3)) for rank in range(3)]
    assert [len(table.weight) for table in tables] == [2, 2, 1]
    assert [table.num_embeddings for table in tables] == [5, 5, 5]
    assert [table.local_rows(whole)[:, 0].tolist() for table in tables] == [[0, 6], [2, 8], [4]]
    with pytest.raises(ConfigError, match="4 rows for a table of 5"):
        tables[0].local_rows(whole[:4])
    with pytest.raises(ConfigError, match="2 rows cannot be shared out over 3"):
        ShardedTable(2, 2, Processes(0, 3))


@pytest.mark.parametrize("trained", [True, False])
def test_a_part_is_trained_and_stays_where_the_table_was(trained: bool) -> None:
    on_host, other = HostTable(5, 2), nn.Embedding(5, 2)
    for table in (on_host, other):
        table.requires_grad_(trained)
    mine, theirs = (ShardedTable.of(table, Processes(1, 2)) for table in (on_host, other))
    assert torch.equal(mine.weight, on_host.weight[1::2])
    assert mine.weight.requires_grad == trained
    for part in (mine, theirs):
        part.to(device="meta", dtype=torch.float64)
    assert (mine.weight.device.type, theirs.weight.device.type) == ("cpu", "meta")
    assert mine.weight.dtype == theirs.weight.dtype == torch.float64
