"""Bootstrap intervals of ratios of sums: means, precision, recall, F1, accuracy are all of them.

Axis legend: item (a text, a sentence, a seed), resample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    _check(len(parts), confidence)
    resampled_ratios = np.concatenate(
        [_ratios(sums) for sums in resampled(parts, generator, n_resamples)]
    )
    return percentile_interval(_ratios(parts.sum(0)), resampled_ratios, confidence, n=len(parts))


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
    _check(len(parts), confidence)

    def difference(sums: Floats) -> Floats:
        return _ratios(sums[..., :2]) - _ratios(sums[..., 2:])

    differences = np.concatenate(
        [difference(sums) for sums in resampled(parts, generator, n_resamples)]
    )
    return percentile_interval(difference(parts.sum(0)), differences, confidence, n=len(parts))


def by_position(generator: np.random.Generator, n: int, n_resamples: int) -> Floats:
    """How often each of `n` items is drawn, `[resample item]`: item after item by its position."""
    rows = generator.integers(n, size=(n_resamples, n)) + np.arange(n_resamples)[:, None] * n
    return np.bincount(rows.ravel(), minlength=rows.size).reshape(-1, n).astype(np.float64)


def by_count(generator: np.random.Generator, n: int, n_resamples: int) -> Floats:
    """The same distribution, drawn as one multinomial count of all items."""
    return generator.multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(np.float64)


def resampled(
    parts: Floats,
    generator: np.random.Generator,
    n_resamples: int,
    draw: Callable[[np.random.Generator, int, int], Floats] = by_position,
) -> Iterator[Floats]:
    """Sums `[resample part]` of `parts [item part]` over items drawn with replacement, in blocks.

    The one bootstrap: every interval that resamples reads its score from these sums. `draw` is
    `by_position` or `by_count`; a score keeps its own, so that the numbers of one seed stay.

    >>> sums = next(resampled(np.ones((4, 1)), np.random.default_rng(0), 3))
    >>> sums[:, 0].tolist()
    [4.0, 4.0, 4.0]
    """
    step = max(1, _BLOCK // len(parts))
    for start in range(0, n_resamples, step):
        yield draw(generator, len(parts), min(step, n_resamples - start)) @ parts


def percentile_interval(
    estimate: ArrayLike, values: Floats, confidence: float, *, n: int, method: str = "bootstrap"
) -> Interval:
    """`estimate` with the middle `confidence` of the values `drawn [resample]`."""
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(np.asarray(estimate)), float(low), float(high), confidence, n, method)


def _ratios(sums: Floats) -> Floats:
    """The first over the second of `sums [... 2]`; 0 with nothing below the line."""
    above, below = sums[..., 0], sums[..., 1]
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def _parts(*columns: ArrayLike) -> Floats:
    """The columns side by side, `[item part]`."""
    parts = [np.asarray(column, np.float64).ravel() for column in columns]
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise ScoreError(f"the parts of a ratio need one number an item each, not {lengths}")
    if not all(np.isfinite(part).all() for part in parts):
        raise ScoreError("the parts of a ratio must be finite")
    return np.stack(parts, axis=1)


def _check(n: int, confidence: float) -> None:
    if n < 2:
        raise ScoreError(f"an interval needs at least two items, there are {n}; score more texts")
    if not 0 < confidence < 1:
        raise ScoreError(f"confidence {confidence} is outside (0, 1)")
