"""The progress bar of every command that trains."""

from __future__ import annotations

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from kept.apps.cli.console import TerminalConsole
from kept.training.costs import SHORTEST, StepClock, minutes_in_words
from kept.training.log import StepRecord
from kg_loaders.counting import counted


class TrainingProgress:
    """A `Reporter`: one bar per training with its loss and the time left, notices above it.

    With `foretells` it says once, after a few steps of the first training, how long that will take
    and what memory it has taken: a line that stays where there is no terminal for a bar.
    """

    def __init__(self, console: TerminalConsole, *, foretells: bool = False) -> None:
        self._clock = StepClock() if foretells else None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None
        self._last_step = 0

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, record: StepRecord) -> None:
        """Move on by one step; a step number that falls begins another training."""
        if self._task is None or record.step <= self._last_step:
            self._task = self._progress.add_task(
                "", total=record.n_steps, completed=record.step - 1
            )
        self._last_step = record.step
        loss = f"loss {record.total_loss:.3f}" if record.losses else "no loss"
        about = f"{loss}  {record.nodes_per_second:.0f} nodes/s"
        self._progress.update(self._task, completed=record.step, description=about)
        left = None if self._clock is None else self._clock.passed(record.step, record.n_steps)
        if left is not None and left >= SHORTEST:
            self.notice(
                f"forecast: {minutes_in_words(left)} for the "
                f"{counted(record.n_steps - record.step, 'steps')} "
                f"that are left; {record.peak_memory_mib / 1024:.2f} GiB of memory so far"
            )

    def notice(self, message: str) -> None:
        """Print above the bar."""
        self._progress.console.print(message)
