"""Bootstrap intervals of ratios of sums: means, precision, recall, F1, accuracy are all of them.

Axis legend: item (a text, a sentence, a seed), resample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entity_linking.errors import ScoreError

_BLOCK = 1 << 22  # random numbers drawn at once

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with a confidence interval; `n` counts what was resampled (items or clusters)."""

    estimate: float
    low: float
    high: float
    confidence: float
    n: int
    method: str

    def __str__(self) -> str:
        return f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"


def ratio_interval(
    numerators: ArrayLike,
    denominators: ArrayLike,
    *,
    generator: np.random.Generator,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Percentile interval of sum(numerators) / sum(denominators), both `[item]`.

    Efron and Tibshirani 1993, section 13.3; items are drawn with replacement, both parts of an item
    together. A ratio with nothing below the line is 0. ScoreError: fewer than two items.
    """
    parts = _parts(numerators, denominators)
    _check(len(parts[0]), confidence)
    drawn = np.concatenate([_ratio(*block) for block in _resampled(parts, generator, n_resamples)])
    return _interval(float(_ratio(*(p.sum() for p in parts))), drawn, confidence, len(parts[0]))


def paired_ratio_interval(
    ours: tuple[ArrayLike, ArrayLike],
    theirs: tuple[ArrayLike, ArrayLike],
    *,
    generator: np.random.Generator,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Interval of our ratio minus theirs; each is `(numerators, denominators)` of the same items.

    A resample draws the same items for both.
    """
    parts = _parts(*ours, *theirs)
    _check(len(parts[0]), confidence)
    drawn = np.concatenate(
        [_ratio(*b[:2]) - _ratio(*b[2:]) for b in _resampled(parts, generator, n_resamples)]
    )
    sums = [part.sum() for part in parts]
    estimate = float(_ratio(*sums[:2]) - _ratio(*sums[2:]))
    return _interval(estimate, drawn, confidence, len(parts[0]))


def _resampled(
    parts: list[Floats], generator: np.random.Generator, n_resamples: int
) -> Iterator[list[Floats]]:
    """The sums of every part over resampled items, some resamples at a time."""
    n = len(parts[0])
    step = max(1, _BLOCK // n)
    for start in range(0, n_resamples, step):
        drawn = generator.integers(n, size=(min(step, n_resamples - start), n))
        yield [part[drawn].sum(1) for part in parts]


def _ratio(numerators: ArrayLike, denominators: ArrayLike) -> Floats:
    above, below = np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)
    ratio: Floats = np.divide(above, below, out=np.zeros_like(above), where=below != 0)
    return ratio


def _interval(estimate: float, drawn: Floats, confidence: float, n: int) -> Interval:
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(estimate, float(low), float(high), confidence, n, "bootstrap")


def _parts(*columns: ArrayLike) -> list[Floats]:
    parts = [np.asarray(column, np.float64).ravel() for column in columns]
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise ScoreError(f"the parts of a ratio need one number an item each, not {lengths}")
    if not all(np.isfinite(part).all() for part in parts):
        raise ScoreError("the parts of a ratio must be finite")
    return parts


def _check(n: int, confidence: float) -> None:
    if n < 2:
        raise ScoreError(f"an interval needs at least two items, there are {n}; score more texts")
    if not 0 < confidence < 1:
        raise ScoreError(f"confidence {confidence} is outside (0, 1)")
