"""The cost of a run: time, processor time, memory and throughput, counted and foretold.

Nothing is guessed from sizes but what sizes decide: weights, gradients and the optimiser's numbers.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn

from kept.errors import ConfigError
from kept.layers.part_table import PartTable
from kept.training.config import TrainConfig
from kept.training.optimisers import dense_parameters, sparse_parameters
from kept.training.processes.sharded_table import entity_tables

MEASURED = 12
"""Steps that are measured, beside a first one: what is made once is made in it.

Batches by length differ in length: over Wiki80's sentences, nine forecasts of ten from 12 of them
are within 11 % of the whole, from 5 within 19 %."""
SHORTEST = 20.0
"""Seconds left below which no forecast is announced."""
MEMORY = Path("/proc/meminfo")
GIB = 1 << 30
REMEDY = (
    "take a smaller language model (--host), train less of it (--set train_only=[...]), keep one "
    "number a row of large tables (--set training.row_optimiser=adagrad), or train "
    "where there is more"
)


def peak_memory_mib() -> float:
    """The most memory that this process has held so far, in MiB; worker processes not counted."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)


@dataclass
class Costs:
    """Counts of one process since it began to train; `seconds_before` comes from a checkpoint.

    `budget_since` is when the clock of a budget began, if that was before the training did.
    """

    seconds_before: float = 0.0
    started: float = field(default_factory=time.monotonic)
    processor_started: float = field(default_factory=time.process_time)
    budget_since: float | None = None
    n_nodes: int = 0
    n_texts: int = 0
    step_seconds: float = 0.0
    waiting_seconds: float = 0.0
    """Of `step_seconds`, those in which the next batch was not there yet."""

    @property
    def seconds(self) -> float:
        """Wall clock, added up over resumes."""
        return self.seconds_before + time.monotonic() - self.started

    @property
    def cpu_seconds(self) -> float:
        """Processor time of this process and its threads; worker processes not counted."""
        return time.process_time() - self.processor_started

    def count(self, n_nodes: int, n_texts: int) -> None:
        """Add a batch: its nodes without padding, and its texts."""
        self.n_nodes += n_nodes
        self.n_texts += n_texts

    def rates(self) -> tuple[float, float]:
        """Nodes and texts a second of stepping."""
        seconds = max(self.step_seconds, 1e-9)
        return self.n_nodes / seconds, self.n_texts / seconds

    def exceed(self, config: TrainConfig) -> bool:
        """Whether one of the budgets of `config` is spent."""
        since = self.started if self.budget_since is None else self.budget_since
        spent = (time.monotonic() - since, self.cpu_seconds)
        budgets = (config.budget_minutes, config.budget_cpu_minutes)
        return any(
            minutes is not None and seconds >= minutes * 60
            for seconds, minutes in zip(spent, budgets, strict=True)
        )


@dataclass
class StepClock:
    """Seconds a step, of the steps after the first; `now` is a clock in seconds.

    >>> times = iter([0.0, 9.0, 11.0, 13.0])
    >>> clock = StepClock(measured=2, now=lambda: next(times))
    >>> [clock.passed(step, 32) for step in (1, 2, 3)]
    [None, None, 58.0]
    """

    measured: int = MEASURED
    now: Callable[[], float] = time.monotonic
    _start: float = field(init=False)
    _first: float | None = None
    _n: int = 0

    def __post_init__(self) -> None:
        self._start = self.now()

    def passed(self, step: int, n_steps: int) -> float | None:
        """Count `step`, of steps from 1; return the seconds left where the forecast is due.

        It is due once, after `measured` steps beside the first.
        """
        at = self.now()
        if self._first is None:
            self._first = at
            return None
        self._n += 1
        if self._n != self.measured:
            return None
        return (at - self._first) / self._n * (n_steps - step)


def minutes_in_words(seconds: float) -> str:
    """Return a length of time as a person says it.

    >>> minutes_in_words(48), minutes_in_words(200), minutes_in_words(9000)
    ('48 s', '3.3 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


@dataclass(frozen=True)
class MemoryForecast:
    """Bytes that a training holds from its first to its last step, by what holds them.

    Activations come on top: they follow the sizes of batches, and are measured, not foretold.
    """

    weights: int
    gradients: int
    optimiser: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.optimiser

    def __str__(self) -> str:
        parts = (self.weights, self.gradients, self.optimiser)
        weights, gradients, optimiser = (f"{part / GIB:.2f}" for part in parts)
        return (
            f"memory: {self.total / GIB:.2f} GiB for weights ({weights}), gradients ({gradients}) "
            f"and the optimiser ({optimiser}); each batch needs more"
        )


def memory_forecast(
    model: nn.Module, config: TrainConfig, *, n_processes: int = 1
) -> MemoryForecast:
    """Return what training `model` as `config` says will hold, counted without allocating it.

    Of what `n_processes` share out it is the part of one; a layer that is whole while it computes
    comes on top.

    AdamW keeps two numbers a weight, `RowAdam` the same and one a row, `RowAdagrad` one a row;
    averaging one for all steps, or one for each of its last. Gradients of sparse tables have a
    row for each that a batch touches and are not counted.
    """
    dense, tables = dense_parameters(model), sparse_parameters(model)
    shared: set[int] = set()
    parts = {id(t.weight) for t in model.modules() if isinstance(t, PartTable)}
    if "tables" in config.shard:
        shared |= {id(table.weight) for table in entity_tables(model).values()}
    if "layers" in config.shard:
        shared |= {id(p) for p in model.parameters()} - {id(table) for table in tables}

    def size(tensor: Tensor) -> int:
        n = n_processes if id(tensor) in shared - parts else 1
        return -(-tensor.numel() * tensor.element_size() // n)

    weights = sum(map(size, [*model.parameters(), *model.buffers()]))
    gradients = sum(map(size, dense))
    optimiser = 2 * gradients
    for table in tables:
        if config.row_optimiser == "adam":
            optimiser += 2 * size(table)
        optimiser += size(table) // (table[0].numel() * table.element_size()) * 4
    if config.averaging is not None:
        steps = config.averaging.steps
        optimiser += gradients * (1 if steps == "all" else steps)
    return MemoryForecast(weights, gradients, optimiser)


def require_memory(forecast: MemoryForecast, free: int | None) -> None:
    """Raise `ConfigError` with a remedy where more is needed than the `free` bytes.

    The weights are there already. None: nothing is known, nothing is raised.
    """
    needed = forecast.total - forecast.weights
    if free is not None and needed > free:
        raise ConfigError(
            f"training needs {needed / GIB:.2f} GiB more than the weights, before the first batch, "
            f"and {free / GIB:.2f} GiB are free: {REMEDY}"
        )


def free_memory(path: Path = MEMORY) -> int | None:
    """Return the bytes that can still be taken, as Linux says it; None elsewhere."""
    if not path.is_file():
        return None
    for line in path.read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return None
