"""What two processes exchange: this one is the first, and one that is forked from it the second."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn

from kept.errors import ConfigError, TrainingError
from kept.layers.means import mean_of
from kept.training.processes import together
from kept.training.processes.together import (
    SINGLE_PROCESS,
    Processes,
    join_processes,
    leave_processes,
    report_dead_process,
)
from kg_loaders.disk.writing import claim
from kg_loaders.errors import InUseError

Work = Callable[[Processes], Any]
HUNG_SECONDS = 120
"""After which the second process dies, and the first one fails: what they exchange takes one."""
pytestmark = pytest.mark.filterwarnings("ignore:This process .* multi-threaded:DeprecationWarning")


class Both:
    """Does the same in two processes; gives what each returned, an error by its class and text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, work: Work) -> tuple[Any, Any]:
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(HUNG_SECONDS)  # threads of torch that a fork left behind are waited for
            try:
                with os.fdopen(into, "wb") as pipe:
                    pipe.write(pickle.dumps(self._result(work, 1)))
            finally:
                os._exit(0)
        os.close(into)
        try:
            first = self._result(work, 0)
        finally:
            leave_processes()
        with os.fdopen(out, "rb") as pipe:
            second = pickle.loads(pipe.read())
        os.waitpid(child, 0)
        return first, second

    def _result(self, work: Work, rank: int) -> Any:
        distributed.init_process_group(
            "gloo", init_method=f"file://{self.folder}", rank=rank, world_size=2,
            timeout=timedelta(seconds=20),
        )  # fmt: skip
        try:
            return work(Processes(rank, 2))
        except (InUseError, TrainingError, ValueError) as error:
            return type(error).__name__, str(error)


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path / "meeting")


def test_numbers_are_added_up_or_compared(both: Both) -> None:
    def work(here: Processes) -> Any:
        mine = [1.5, 10.0] if here.is_first else [2.0, -3.0]
        return here.sums(mine), here.largest([here.rank, 5 - here.rank])

    assert both(work) == (([3.5, 7.0], [1, 5]),) * 2


def test_values_come_in_the_order_of_ranks(both: Both) -> None:
    assert both(lambda here: here.from_each(f"of {here.rank}")) == (["of 0", "of 1"],) * 2


def test_the_first_answers_for_all(both: Both) -> None:
    assert both(lambda here: here.from_first(lambda: here.rank + 7)) == (7, 7)


def test_an_error_of_the_first_ends_all(both: Both) -> None:
    def work(here: Processes) -> Any:
        def fail() -> None:
            raise ValueError("no room" if here.is_first else "never asked")

        return here.from_first(fail)

    assert both(work) == (("ValueError", "no room"), ("TrainingError", "process 0 ended: no room"))


def test_an_error_without_words_is_named(both: Both) -> None:
    def work(here: Processes) -> Any:
        def fail() -> None:
            raise ValueError

        return here.from_first(fail)

    assert both(work)[1] == ("TrainingError", "process 0 ended: ValueError")


def test_a_place_is_claimed_for_all_or_refused_to_all(both: Both, tmp_path: Path) -> None:
    def work(here: Processes) -> Any:
        with here.claimed(tmp_path / "run") as path:
            return path.name

    assert both(work) == ("run", "run")
    both.folder = tmp_path / "second meeting"
    with claim(tmp_path / "run"):
        first, second = both(work)
    assert first == second
    assert first[0] == "InUseError"


def test_gradients_are_added_up(both: Both) -> None:
    def work(here: Processes) -> Any:
        gradients = [torch.full((2, 3), 1.0 + here.rank), torch.full((2,), 10.0 * here.rank)]
        return [gradient.tolist() for gradient in here.summed(gradients)]

    assert both(work) == ([[[3.0] * 3] * 2, [10.0, 10.0]],) * 2


def sparse(rows: list[int], values: list[list[float]], n: int = 5) -> Tensor:
    width = 2
    return torch.sparse_coo_tensor(
        torch.tensor([rows], dtype=torch.long), torch.tensor(values).reshape(-1, width), (n, width),
        check_invariants=False,
    )  # fmt: skip


def test_rows_that_were_read_are_averaged(both: Both) -> None:
    """The first reads rows 1 and 4, the second row 4 twice; and one of them another table."""

    def work(here: Processes) -> Any:
        tables = [nn.Parameter(torch.zeros(5, 2)) for _ in range(3)]
        if here.is_first:
            tables[0].grad = sparse([4, 1], [[2.0, 4.0], [6.0, 8.0]])
            tables[1].grad = sparse([0], [[1.0, 1.0]])
        else:
            tables[0].grad = sparse([4, 4], [[10.0, 20.0], [1.0, 1.0]])
        here.gather_rows(tables)
        return [None if t.grad is None else t.grad.to_dense().tolist() for t in tables]

    nothing = [0.0, 0.0]
    expected = [
        [nothing, [3.0, 4.0], nothing, nothing, [6.5, 12.5]],
        [[0.5, 0.5], nothing, nothing, nothing, nothing],
        None,
    ]
    assert both(work) == (expected, expected)


def test_means_are_over_the_labels_of_all(both: Both) -> None:
    """Three losses of 1 and one of 5; a spare share counts for nothing."""

    def work(here: Processes) -> Any:
        losses = torch.tensor([1.0, 1.0, 1.0]) if here.is_first else torch.tensor([5.0])
        with here.counting(False):
            fair = float(mean_of(losses.sum(), len(losses)))
        with here.counting(not here.is_first):
            of_first = float(mean_of(losses.sum(), len(losses)))
        return fair, of_first

    assert both(work) == ((0.75, 1.0), (1.25, 0.0))


def test_gradients_of_a_joined_model_are_averaged(both: Both) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))
            self.table = nn.Parameter(torch.ones(1))

        def forward(self, batch: float) -> Any:
            losses = {"loss": batch * (self.weight + self.table).sum()}
            return type("Output", (), {"losses": losses})

    def work(here: Processes) -> Any:
        model = Model()
        joined = here.joined(model, [model.table])
        joined(2.0 + 4.0 * here.rank)["loss"].backward()
        assert model.weight.grad is not None
        assert model.table.grad is not None
        return float(model.weight.grad), float(model.table.grad)

    assert both(work) == ((4.0, 2.0), (4.0, 6.0)), "the table's are left to gather_rows"


def test_one_process_exchanges_nothing() -> None:
    alone = SINGLE_PROCESS
    assert alone.is_first
    assert (alone.sums([1.5]), alone.largest([2]), alone.from_each("x")) == ([1.5], [2], ["x"])
    assert alone.from_first(lambda: 3) == 3
    gradients = [torch.ones(2)]
    assert alone.summed(gradients) is gradients
    table = nn.Parameter(torch.zeros(2, 2))
    alone.gather_rows([table])
    assert table.grad is None
    context = nullcontext("mine")
    assert alone.first_only(context) is context
    with Processes(1, 2).first_only(context) as value:
        assert value is None


@pytest.mark.parametrize(("n_parts", "n"), [(7, 3), (2, 4), (0, 2), (6, 3)])
def test_shares_are_all_parts_in_a_row(n_parts: int, n: int) -> None:
    shares = [list(Processes(rank, n).share(n_parts)) for rank in range(n)]
    assert [part for share in shares for part in share] == list(range(n_parts))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_several_processes_do_not_train_on_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert join_processes("mps").n == 1
    monkeypatch.setattr(together, "rank_and_size", lambda: (1, 2))
    with pytest.raises(ConfigError, match="one process trains on mps, not 2"):
        join_processes("mps")


def test_the_error_of_a_lost_process_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(text: str) -> None:
        with report_dead_process("Begin again."):
            raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="Broken pipe"):
        lose("Broken pipe")  # alone: nobody can be lost
    monkeypatch.setattr(together, "rank_and_size", lambda: (0, 2))
    with pytest.raises(TrainingError, match=r"another process .* Begin again\."):
        lose("Connection closed by peer")
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        lose("out of memory")
    assert not isinstance(caught.value, TrainingError)
