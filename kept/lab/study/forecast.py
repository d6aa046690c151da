"""How long the missing runs of a comparison will take: their work by the time that some took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kept.lab.study.design import RunKey
from kept.methods import BASELINE
from kept.training.costs import SHORTEST, StepClock, minutes_in_words
from kept.training.log import Reporter, StepRecord
from kg_loaders.counting import counted


class Work(Protocol):
    """The work of a run, and of the training that comes first in it, in the same unit."""

    @property
    def units(self) -> float:
        """All of it."""
        ...

    @property
    def first_training(self) -> float:
        """Of the first training alone."""
        ...


@dataclass(frozen=True)
class OneRun:
    """The work of a run of which nothing is counted: as much as that of any other."""

    units: float = 1.0
    first_training: float = 1.0


class RunForecast:
    """A `Reporter` that hands all on and says once, after a few steps, what all runs will take.

    `begin` and `end` are called around each run; from then on `left` goes by the time that runs
    took: those of the same method and knowledge first, then all.
    """

    def __init__(
        self,
        reporter: Reporter | None,
        announce: Callable[[str], None],
        clock: Callable[[], StepClock] = StepClock,
    ) -> None:
        self.work: dict[RunKey, Work] = {}
        self._reporter, self._announce, self._new_clock = reporter, announce, clock
        self._clock: StepClock | None = None
        self._key: RunKey | None = None
        self._is_said = False
        self._took: list[tuple[RunKey, float, float]] = []

    def of(self, work: Mapping[RunKey, Work]) -> None:
        """Take the work of the runs that are missing."""
        self.work = dict(work)

    def begin(self, key: RunKey) -> None:
        """A run is made from here on."""
        self._key, self._clock = key, None if self._is_said else self._new_clock()

    def end(self, key: RunKey, seconds: float | None) -> None:
        """A run is over; `seconds`: what it took, None where it was not made or not finished."""
        work = self.work.pop(key, None)
        if work is not None and work.units and seconds is not None:
            self._took.append((key, work.units, seconds))

    def left(self) -> str:
        """Return in words how long the runs that are left take; "" before one was made."""
        if not self._took:
            return ""
        return f", about {minutes_in_words(self.seconds_left())} left"

    def seconds_left(self) -> float:
        """Return the seconds of all runs that are not over, by those that are."""
        return sum(work.units * self._pace(key) for key, work in self.work.items() if work.units)

    def _pace(self, key: RunKey) -> float:
        """Seconds a unit."""
        alike = [t for t in self._took if (t[0].method, t[0].knowledge) == _arm(key)]
        took = alike or self._took
        return sum(seconds for *_, seconds in took) / sum(units for _, units, _ in took)

    def step(self, record: StepRecord) -> None:
        """Hand on, and count."""
        if self._reporter is not None:
            self._reporter.step(record)
        work = None if self._key is None else self.work.get(self._key)
        if self._clock is None or self._is_said or work is None:
            return
        left = self._clock.passed(record.step, record.n_steps)
        if left is None or record.step >= record.n_steps:
            return
        self._is_said = True
        whole = left * record.n_steps / (record.n_steps - record.step)
        n_units = sum(each.units for each in self.work.values())
        done = whole - left
        seconds = n_units * whole / max(work.first_training, 1.0) - done
        runs = in_words([key for key, each in self.work.items() if each.units > 0])
        if seconds >= SHORTEST:
            self._announce(
                f"forecast: {minutes_in_words(left)} for the rest of this training, about "
                f"{minutes_in_words(seconds)} for the {runs}, evaluation included"
            )

    def notice(self, message: str) -> None:
        """Hand on."""
        if self._reporter is not None:
            self._reporter.notice(message)


def in_words(keys: Sequence[RunKey]) -> str:
    """Return which runs these are.

    >>> in_words([RunKey("none", "off", 0), RunKey("words", "true", 0), RunKey("words", "off", 0)])
    '3 runs to be made (none; words with knowledge true, off)'
    """
    arms: dict[str, dict[str, None]] = {}
    for key in keys:
        arms.setdefault(key.method, {})[key.knowledge] = None
    names = [
        name if name == BASELINE else f"{name} with knowledge {', '.join(kinds)}"
        for name, kinds in arms.items()
    ]
    n_seeds = len({key.seed for key in keys})
    each = f"; each with {counted(n_seeds, 'seeds')}" if n_seeds > 1 else ""
    return f"{counted(len(keys), 'runs')} to be made ({'; '.join(names)}{each})"


def _arm(key: RunKey) -> tuple[str, str]:
    return key.method, key.knowledge
