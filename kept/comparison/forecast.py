"""How long a comparison will take, told after a few steps of its first training."""

from __future__ import annotations

from collections.abc import Callable

from kept.training.forecast import SHORTEST, StepClock, told_minutes
from kept.training.log import Reporter, StepRecord


class Foretold:
    """A `Reporter` that hands all on, and announces once what all missing runs will take.

    `n_missing` runs, each taken to be as long as the first training; after the first run the
    time that runs did take is told (`kept.comparison.compare`).
    """

    def __init__(
        self,
        reporter: Reporter | None,
        announce: Callable[[str], None],
        clock: StepClock | None = None,
    ) -> None:
        self.n_missing = 0
        self._reporter, self._announce = reporter, announce
        self._clock = StepClock() if clock is None else clock

    def step(self, record: StepRecord) -> None:
        """Hand on, and count."""
        if self._reporter is not None:
            self._reporter.step(record)
        left = self._clock.passed(record.step, record.n_steps)
        if left is None or left * self.n_missing < SHORTEST:
            return
        whole = left * record.n_steps / max(record.n_steps - record.step, 1)
        self._announce(
            f"forecast: {told_minutes(left)} for the rest of this training, about "
            f"{told_minutes(left + whole * (self.n_missing - 1))} for all {self.n_missing} runs "
            "that are missing, if each takes as long; evaluation comes on top"
        )

    def notice(self, message: str) -> None:
        """Hand on."""
        if self._reporter is not None:
            self._reporter.notice(message)
