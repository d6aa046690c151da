"""A table shared out over processes is the table of one, saved, opened and gone on with by any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_processes import finish, start

from kept.errors import ConfigError
from kept.training.processes.sharded_table import ShardedTable
from kept.training.processes.together import Processes

SCRIPT = Path(__file__).with_name("train_shards.py")


def trained(folder: Path, n: int, n_steps: int, begin: Path | None = None) -> tuple[Path, Any]:
    """What `n` processes end with after so many steps."""
    out = folder / f"{n}-{n_steps}-{0 if begin is None else begin.stem}.pt"
    flags = [str(out), str(n_steps), *([] if begin is None else [str(begin)])]
    for code, output in finish(start([str(SCRIPT), *flags], n)):
        assert code == 0, output
    return out, torch.load(out)


@pytest.mark.slow
def test_two_processes_end_as_one_also_when_resumed(tmp_path: Path) -> None:
    _, one = trained(tmp_path, 1, 6)
    _, two = trained(tmp_path, 2, 6)
    half, _ = trained(tmp_path, 2, 3)
    _, resumed = trained(tmp_path, 1, 6, half)
    _, of_two = trained(tmp_path, 2, 6, half)
    first = torch.load(half)
    for name in ("table", "sum"):
        assert not torch.equal(one[name], first[name]), "nothing was trained"
        torch.testing.assert_close(two[name], one[name], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(resumed[name], one[name], atol=1e-6, rtol=1e-5)
        assert torch.equal(of_two[name], two[name]), (
            "two processes resumed are not bitwise the same"
        )
    for name, value in one["layer"].items():
        torch.testing.assert_close(two["layer"][name], value, atol=1e-6, rtol=1e-5)


def test_alone_it_is_an_embedding() -> None:
    table = ShardedTable(7, 3, Processes())
    rows = torch.tensor([[6, 0, 6], [2, 2, 1]])
    assert torch.equal(table(rows), table.weight[rows])
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
    assert [table.own_of(whole)[:, 0].tolist() for table in tables] == [[0, 6], [2, 8], [4]]
    with pytest.raises(ConfigError, match="4 rows for a table of 5"):
        tables[0].own_of(whole[:4])
    with pytest.raises(ConfigError, match="2 rows cannot be shared out over 3"):
        ShardedTable(2, 2, Processes(0, 3))
