"""Intervals and paired tests over the ranked questions of a row's runs.

A run stores one `.npz` file with arrays `PART/FIELD` over questions: `rr` (reciprocal filtered
ranks), `hits` (the share of draws with a hit among the first ten), `triple` (the question's triple,
whose two questions are drawn together).

Axis legend: question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    paired_bootstrap_interval,
    sign_flip_test,
    verdict,
)
from kept.randomness import generator


@dataclass(frozen=True)
class RowQuestions:
    """The questions of a `part`, means over the runs of row `name`; a file each."""

    name: str
    part: str
    files: Sequence[Path]

    def mean(self, field: str) -> NDArray[np.float64]:
        """Return the mean over runs of a field."""
        rows = [np.load(file)[f"{self.part}/{field}"] for file in self.files]
        return np.asarray(np.mean(rows, axis=0))

    def interval(self, field: str) -> Interval:
        """Return the mean of a field with its interval over triples."""
        draws = generator(0, "table")
        return bootstrap_interval(self.mean(field), clusters=self.mean("triple"), generator=draws)

    def against(self, other: RowQuestions, field: str, *draws: str) -> tuple[Interval, float, str]:
        """Return the paired difference of a field, its p and its verdict, by draws of a name."""
        ours, theirs, triple = self.mean(field), other.mean(field), self.mean("triple")
        pair, flips = (generator(0, name, *draws) for name in ("pair", "flips"))
        interval = paired_bootstrap_interval(ours, theirs, clusters=triple, generator=pair)
        p = sign_flip_test(ours, theirs, clusters=triple, generator=flips)
        return interval, p, verdict(interval, p, ours=self.name, theirs=other.name)


def mean_metric(parts: Sequence[dict[str, dict[str, float]]], kind: str, metric: str) -> str:
    """Return the mean over runs of a metric of a part, as tables have it."""
    return f"{np.mean([part[kind][metric] for part in parts]):.3f}"
