"""Several processes that train one model together: torchrun or `accelerate launch` starts them.

Every process reads the same batches and keeps its share (`Shares`); gradients are averaged by
torch's `DistributedDataParallel`, those of sparse tables by gathering their rows; so all hold the
same weights, and the first one writes. Python objects are exchanged over gloo, gradients on a
GPU over nccl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from kept.batches.shares import TrainingBatch
from kept.errors import ConfigError, TrainingError
from kept.layers.means import counted_by
from kept.training.processes.launch import rank_and_size
from kept.training.processes.machines import require_reachable
from kg_loaders.disk.writing import claim
from kg_loaders.errors import InUseError

T = TypeVar("T")
PEER_TIMEOUT = timedelta(hours=2)
"""How long a process waits for another that is alive: the first one may write for long."""
LOST_PEER_MESSAGES = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
)


@dataclass(frozen=True)
class Processes:
    """Process `rank` of `n` that train one model together; alone, everything here does nothing."""

    rank: int = 0
    n: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes and reports."""
        return self.rank == 0

    # ---- exchange of values ---------------------------------------------------------
    def sums(self, values: Sequence[float]) -> list[float]:
        """Each of `values`, added up over the processes."""
        return self._reduced(values, distributed.ReduceOp.SUM)

    def largest(self, values: Sequence[int]) -> list[int]:
        """Each of `values`, the largest of any process."""
        return [int(value) for value in self._reduced(values, distributed.ReduceOp.MAX)]

    def from_each(self, value: T) -> list[T]:
        """The `value` of every process, which all call this, in order of their ranks."""
        if self.n == 1:
            return [value]
        gathered: list[Any] = [None] * self.n
        distributed.all_gather_object(gathered, value, group=_object_group())
        return gathered

    def share(self, n_parts: int) -> range:
        """Which of `n_parts` in a row are this process's: consecutive ones.

        >>> [list(Processes(rank, 2).share(3)) for rank in range(2)]
        [[0], [1, 2]]
        """
        return range(n_parts * self.rank // self.n, n_parts * (self.rank + 1) // self.n)

    def from_first(self, compute: Callable[[], T]) -> T:
        """What `compute` returns in the first process, which alone calls it.

        What it raises ends all: the first process with the error, the others with TrainingError.
        """
        if self.n == 1:
            return compute()
        broadcast: list[Any] = [None, None]
        try:
            if self.is_first:
                broadcast[0] = compute()
        except Exception as error:
            broadcast[1] = str(error) or type(error).__name__
            raise
        finally:
            distributed.broadcast_object_list(broadcast, src=0, group=_object_group())
        if broadcast[1] is not None:
            raise TrainingError(f"process 0 ended: {broadcast[1]}")
        answer: T = broadcast[0]
        return answer

    @contextmanager
    def claimed(self, path: Path) -> Iterator[Path]:
        """`claim(path)` in the first process, for all; each raises InUseError where it is held."""
        with ExitStack() as locks:

            def take() -> str | None:
                try:
                    locks.enter_context(claim(path))
                except InUseError as error:
                    return str(error)
                return None

            if (busy := self.from_first(take)) is not None:
                raise InUseError(busy)
            yield path

    def first_only(self, context: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
        """`context` in the first process, nothing in the others."""
        return context if self.is_first else nullcontext()

    def counting(self, is_spare: bool) -> AbstractContextManager[None]:
        """A context in which means are over the labels of all processes (`mean_of`).

        A process whose share `is_spare` adds nothing.
        """
        if self.n == 1:
            return nullcontext()

        def of_all(total: Tensor, n_labels: Tensor | int) -> tuple[Tensor, Tensor | int]:
            mine = 0.0 if is_spare else float(n_labels)
            (n_all,) = self.sums([mine])
            return total * (0.0 if is_spare else 1.0), int(n_all)

        return counted_by(of_all)

    # ---- gradients -------------------------------------------------------------------------
    def joined(self, model: nn.Module, tables: Sequence[nn.Parameter]) -> nn.Module:
        """A module that returns the losses of `model`, and averages gradients in `backward`.

        `tables` are left to `gather_rows`. Weights become those of the first process.
        """
        losses = Losses(model)
        rows = {id(table) for table in tables}
        names = [name for name, p in losses.named_parameters() if id(p) in rows]
        dense = [p for p in model.parameters() if p.requires_grad and id(p) not in rows]
        if self.n == 1 or not dense:
            return losses
        ignore: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignore(losses, names)
        # a batch need not have every loss, nor a share every kind of node
        return DistributedDataParallel(losses, find_unused_parameters=True)

    def summed(self, gradients: list[Tensor]) -> list[Tensor]:
        """`gradients`, each added up over the processes."""
        if self.n == 1 or not gradients:
            return gradients
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        return [part.view_as(old) for part, old in zip(parts, gradients, strict=True)]

    def gather_rows(self, tables: Sequence[nn.Parameter]) -> None:
        """Average the sparse gradients of `tables` over the processes: only rows that were read
        are sent."""
        for table in tables if self.n > 1 else ():
            rows = torch.empty(0, dtype=torch.long, device=table.device)
            values = table.new_empty(0, *table.shape[1:])
            if table.grad is not None:
                mine = table.grad.coalesce()
                rows, values = mine.indices()[0], mine.values()
            rows, values = self._all_rows(rows, values)
            whole = torch.sparse_coo_tensor(
                rows[None], values / self.n, table.shape, check_invariants=False
            )
            table.grad = whole.coalesce() if len(rows) else None

    def _all_rows(self, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The rows and values of all processes below one another, in order of their ranks."""
        counts = [0] * self.n
        counts[self.rank] = len(rows)
        counts = [int(count) for count in self.sums(counts)]
        group = _object_group() if rows.device.type == "cpu" else None
        blocks = []
        for mine in (rows, values):
            padded = mine.new_zeros(max(counts), *mine.shape[1:])
            padded[: len(mine)] = mine
            parts = [torch.empty_like(padded) for _ in counts]
            distributed.all_gather(parts, padded, group=group)
            blocks.append(torch.cat([part[:n] for part, n in zip(parts, counts, strict=True)]))
        return blocks[0], blocks[1]

    def _reduced(self, values: Sequence[float], how: Any) -> list[float]:
        if self.n == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(total, how, group=_object_group())
        return list(total.tolist())


SINGLE_PROCESS = Processes()


class Losses(nn.Module):
    """A model that returns its losses alone: what else it computes needs no gradient."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: TrainingBatch) -> dict[str, Tensor]:
        losses: dict[str, Tensor] = self.model(batch).losses
        return losses


def processes() -> Processes:
    """This process among those that a launcher has started; one alone without a launcher."""
    return Processes(*rank_and_size())


def join_processes(device: str) -> Processes:
    """Wait until all processes of the run are there; raises `ConfigError` for a `device` on which
    only one can train."""
    processes_here = processes()
    if processes_here.n == 1:
        return processes_here
    if device == "mps":
        raise ConfigError(
            f"one process trains on mps, not {processes_here.n}; take device cpu, or no launcher"
        )
    if not distributed.is_initialized():
        require_reachable()
        on_gpu = device != "cpu" and torch.cuda.is_available()
        try:
            distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=PEER_TIMEOUT)
        except RuntimeError as error:
            raise TrainingError(
                f"the {processes_here.n} processes of this run did not meet: "
                f"{str(error).splitlines()[0]}"
            ) from error
    return processes_here


def leave_processes() -> None:
    """End what `meet` began."""
    if distributed.is_initialized():
        _gloo.cache_clear()
        rows_over.cache_clear()
        distributed.destroy_process_group()


RESUME_REMEDY = (
    "The same command goes on from the last checkpoint (kept pretrain and kept finetune: with "
    "--resume)"
)


@contextmanager
def report_dead_process(remedy: str = RESUME_REMEDY) -> Iterator[None]:
    """Turn the error of a dead peer into a `TrainingError` that says that a process has ended."""
    try:
        yield
    except RuntimeError as error:
        if processes().n == 1 or not any(word in str(error) for word in LOST_PEER_MESSAGES):
            raise
        raise TrainingError(
            "another process of this run has ended or cannot be reached; its own message says why. "
            + remedy
        ) from error


def _object_group() -> Any:
    """The group for Python objects: gloo, also where gradients go over nccl."""
    return None if distributed.get_backend() == "gloo" else _gloo()


@cache
def rows_over(device: str) -> Any:
    """The group over which rows of shared tables on such a device go.

    It is not the group of the gradients, which are sent at the same time, and in an order that may
    differ between processes."""
    return distributed.new_group(
        backend="gloo" if device == "cpu" else "nccl", timeout=PEER_TIMEOUT
    )


@cache
def _gloo() -> Any:
    return distributed.new_group(backend="gloo", timeout=PEER_TIMEOUT)
