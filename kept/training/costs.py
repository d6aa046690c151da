"""The cost of a run: time, processor time, memory and throughput."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass, field

from kept.training.config import TrainConfig


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
