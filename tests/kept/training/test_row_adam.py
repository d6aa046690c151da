"""The row optimiser against dense Adam, and what it leaves alone."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from kept.errors import ConfigError
from kept.training.row_adam import RowAdam, write_rows


def table(n_rows: int = 6) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(n_rows, 4, sparse=True)


def step(embedding: nn.Embedding, optimizer: torch.optim.Optimizer, rows: list[int]) -> None:
    optimizer.zero_grad()
    embedding(torch.tensor(rows)).pow(3).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("counter", ["row", "global"])
def test_equals_adam_when_every_row_is_touched(counter: str) -> None:
    ours, theirs = table(), table()
    theirs.sparse = False
    one = RowAdam(ours.parameters(), lr=0.01, counter=counter)
    other = torch.optim.Adam(theirs.parameters(), lr=0.01)
    for _ in range(5):
        step(ours, one, [0, 1, 2, 3, 4, 5, 5, 2])  # repeated rows are summed
        step(theirs, other, [0, 1, 2, 3, 4, 5, 5, 2])
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_untouched_rows_stay() -> None:
    embedding = table()
    optimizer = RowAdam(embedding.parameters(), lr=0.1)
    step(embedding, optimizer, [1, 4])
    before = embedding.weight.detach().clone()
    moments = optimizer.state[embedding.weight]["exp_avg"].clone()
    step(embedding, optimizer, [1])
    after = embedding.weight.detach()
    changed = (after != before).any(1).nonzero().squeeze(1).tolist()
    assert changed == [1]
    assert torch.equal(optimizer.state[embedding.weight]["exp_avg"][4], moments[4])
    assert optimizer.state[embedding.weight]["step"].tolist() == [0, 2, 0, 0, 1, 0]


def test_dense_gradients_touch_their_nonzero_rows() -> None:
    sparse, dense = table(), table()
    dense.sparse = False
    for embedding in (sparse, dense):
        optimizer = RowAdam(embedding.parameters(), lr=0.1)
        for rows in ([1, 4], [4], [0, 1]):
            step(embedding, optimizer, rows)
    assert torch.equal(sparse.weight, dense.weight)


def test_the_counters_differ_on_late_rows() -> None:
    per_row, shared = table(), table()
    one, other = RowAdam(per_row.parameters()), RowAdam(shared.parameters(), counter="global")
    for rows in ([0], [0], [1]):
        step(per_row, one, rows)
        step(shared, other, rows)
    assert torch.equal(per_row.weight[0], shared.weight[0])
    assert not torch.equal(per_row.weight[1], shared.weight[1])


@pytest.mark.parametrize("counter", ["row", "global"])
def test_saved_state_resumes_bitwise(counter: str) -> None:
    whole, stopped = table(), table()
    one = RowAdam(whole.parameters(), counter=counter)
    for rows in ([0, 1], [1, 2], [5, 1]):
        step(whole, one, rows)
    first = RowAdam(stopped.parameters(), counter=counter)
    step(stopped, first, [0, 1])
    saved = copy.deepcopy(first.state_dict())
    second = RowAdam(stopped.parameters(), lr=9.0, counter=counter)
    second.load_state_dict(saved)
    for rows in ([1, 2], [5, 1]):
        step(stopped, second, rows)
    assert torch.equal(whole.weight, stopped.weight)


def test_faulty_settings() -> None:
    with pytest.raises(ConfigError, match="counter is 'none'"):
        RowAdam(table().parameters(), counter="none")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="betas"):
        RowAdam(table().parameters(), betas=(0.9, 1.0))
    with pytest.raises(ConfigError, match="eps > 0"):
        RowAdam(table().parameters(), eps=0.0)


@pytest.mark.parametrize("counter", ["row", "global"])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_rows_in_blocks_are_updated_as_all_at_once(
    counter: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    updated = []
    for n in (1, 2, 100):
        monkeypatch.setattr("kept.training.row_adam.ROWS_AT_ONCE", n)
        values = nn.Parameter(torch.zeros(7, *shape))
        optimizer = RowAdam([values], lr=0.1, counter=counter)
        for rows in ([0, 1, 2, 3, 5], [2], [], [2, 6]):
            values.grad = torch.zeros_like(values)
            values.grad[rows] = torch.arange(1.0, len(rows) + 1).view(-1, *[1] * len(shape))
            optimizer.step()
        updated.append(values.detach().clone())
    assert torch.equal(updated[0], updated[2])
    assert torch.equal(updated[1], updated[2])
    assert updated[2].flatten(1).any(1).tolist() == [True, True, True, True, False, True, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("is_turned", [False, True])
def test_rows_are_written_whatever_the_numbers_and_the_layout(
    dtype: torch.dtype, is_turned: bool
) -> None:
    written = torch.arange(24.0).to(dtype).view(4, 6)
    written = written.T if is_turned else written
    wanted, rows = written.clone(), torch.tensor([3, 0])
    values = -torch.ones(2, written.shape[1], dtype=dtype)
    wanted.index_copy_(0, rows, values)
    write_rows(written, rows, values)
    assert torch.equal(written, wanted)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tables_of_other_numbers_follow_adam(dtype: torch.dtype) -> None:
    ours, theirs = table().to(dtype), table().to(dtype)
    theirs.sparse = False
    one, other = RowAdam(ours.parameters()), torch.optim.Adam(theirs.parameters())
    for _ in range(4):
        for embedding, optimizer in ((ours, one), (theirs, other)):
            step(embedding, optimizer, [0, 1, 2, 3, 4, 5])
    torch.testing.assert_close(ours.weight, theirs.weight)
