"""Paired comparison of systems by any score that is a function of summed counts.

Accuracy, micro and macro F1, Matthews' correlation: each item gives a vector of counts, counts add
up, the score is read from the sums. So one bootstrap and one permutation test serve all of them.

Axis legend: item, cluster (items that are not independent), count, draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from entity_linking.scoring.intervals import Interval, by_count, percentile_interval, resampled
from kept.errors import EvaluationError

Counts = NDArray[np.float64]
Value = Callable[[Counts], Counts]
"""From summed counts `[draw count]` to scores `[draw]`."""
_BLOCK = 1 << 22  # numbers drawn at once


def f1_value(sums: Counts) -> Counts:
    """Micro F1 of `[draw (right, found, wanted)]`; accuracy where every item finds and wants one.

    >>> f1_value(np.array([[1.0, 2.0, 2.0]]))
    array([0.5])
    """
    wanted = sums[:, 1] + sums[:, 2]
    return np.asarray(2 * sums[:, 0] / np.maximum(wanted, 1))


def by_cluster(counts: Counts, clusters: Sequence[object]) -> Counts:
    """Sums `[cluster count]` of `counts [item count]`, clusters in order of first appearance."""
    if len(counts) != len(clusters):
        raise EvaluationError(f"{len(counts)} items have {len(clusters)} cluster keys")
    numbers: dict[object, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in clusters]
    sums = np.zeros((len(numbers), counts.shape[1]))
    np.add.at(sums, ids, counts)
    return sums


def score_interval(
    counts: Counts,
    value: Value,
    *,
    generator: np.random.Generator,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Percentile interval of the score of `counts [cluster count]` (Efron and Tibshirani 1993)."""
    _check_size(counts)
    values = [value(sums) for sums in resampled(counts, generator, n_resamples, by_count)]
    return _interval(value(counts.sum(axis=0)[None]), values, len(counts), confidence)


def difference_interval(
    ours: Counts,
    theirs: Counts,
    value: Value,
    *,
    generator: np.random.Generator,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Interval of our score minus theirs, both `[cluster count]`, resampled in pairs."""
    _check(ours, theirs)
    _check_size(ours)
    both, width = np.concatenate([ours, theirs], axis=1), ours.shape[1]

    def difference(sums: Counts) -> Counts:
        return value(sums[:, :width]) - value(sums[:, width:])

    values = [difference(sums) for sums in resampled(both, generator, n_resamples, by_count)]
    return _interval(difference(both.sum(axis=0)[None]), values, len(both), confidence)


def swap_test(
    ours: Counts,
    theirs: Counts,
    value: Value,
    *,
    generator: np.random.Generator,
    n_draws: int = 10_000,
) -> float:
    """Two-sided p of "which system a cluster's answers came from does not matter".

    Approximate randomisation (Noreen 1989): clusters are swapped between the systems at random;
    (hits + 1) / (n_draws + 1), which is never 0.
    """
    _check(ours, theirs)
    sums = [ours.sum(axis=0), theirs.sum(axis=0)]
    observed = abs(float(value(sums[0][None])[0] - value(sums[1][None])[0])) - 1e-12
    surplus, hits = ours - theirs, 0
    step = max(1, _BLOCK // max(1, len(ours)))
    for start in range(0, n_draws, step):
        size = (min(step, n_draws - start), len(ours))
        moved = generator.integers(2, size=size).astype(np.float64) @ surplus
        found = value(sums[0] - moved) - value(sums[1] + moved)
        hits += int((np.abs(found) >= observed).sum())
    return (hits + 1) / (n_draws + 1)


def _check_size(counts: Counts) -> None:
    if (n := len(counts)) < 2:
        raise EvaluationError(f"an interval needs at least two independent items, there are {n}")


def _interval(estimate: Counts, values: list[Counts], n: int, confidence: float) -> Interval:
    drawn_all = np.concatenate(values)
    return percentile_interval(estimate[0], drawn_all, confidence, n=n, method="cluster bootstrap")


def _check(ours: Counts, theirs: Counts) -> None:
    if ours.shape != theirs.shape:
        raise EvaluationError(f"pairs need equal shapes, not {ours.shape} and {theirs.shape}")
