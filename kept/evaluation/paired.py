"""Paired comparison of systems by any score that is a function of summed counts.

Accuracy, micro and macro F1, Matthews' correlation: each item gives a vector of counts, counts add
up, the score is read from the sums. So one bootstrap serves all of them.

Axis legend: item, cluster (items that are not independent), count, draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entity_linking.scoring.intervals import Interval, by_count, percentile_interval, resampled
from kept.errors import EvaluationError
from kept.evaluation.statistics import require_items, require_pairs

Counts = NDArray[np.float64]
Value = Callable[[Counts], Counts]
"""From summed counts `[draw count]` to scores `[draw]`."""


def f1_value(sums: Counts) -> Counts:
    """Micro F1 of `[draw (correct, predicted, gold)]`; accuracy with one prediction and gold each.

    >>> f1_value(np.array([[1.0, 2.0, 2.0]]))
    array([0.5])
    """
    total = sums[:, 1] + sums[:, 2]
    return np.asarray(2 * sums[:, 0] / np.maximum(total, 1))


def accuracy_counts(right: ArrayLike, clusters: Sequence[object] | None = None) -> Counts:
    """Counts `[... item count]` of answers that are right or wrong: `f1_value` is their accuracy.

    With `clusters` of the items, `[cluster count]`.

    >>> f1_value(accuracy_counts([True, False], ["a", "a"]))
    array([0.5])
    """
    values = np.asarray(right, np.float64)
    counts = np.stack([values, np.ones_like(values), np.ones_like(values)], axis=-1)
    return counts if clusters is None else by_cluster(counts, clusters)


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
    require_items(len(counts))
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
    both, difference = paired(ours, theirs, value)
    require_items(len(both))
    values = [difference(sums) for sums in resampled(both, generator, n_resamples, by_count)]
    return _interval(difference(both.sum(axis=0)[None]), values, len(both), confidence)


def paired(ours: Counts, theirs: Counts, value: Value) -> tuple[Counts, Value]:
    """Both sides' counts `[... count]` in one array, and ours minus theirs as a value of it."""
    require_pairs(ours, theirs)
    return np.concatenate([ours, theirs], axis=-1), minus(value, ours.shape[-1])


def minus(value: Value, n_counts: int) -> Value:
    """`value` of the first `n_counts` counts minus that of the rest."""
    return lambda sums: value(sums[:, :n_counts]) - value(sums[:, n_counts:])


def _interval(estimate: Counts, values: list[Counts], n: int, confidence: float) -> Interval:
    scores = np.concatenate(values)
    return percentile_interval(estimate[0], scores, confidence, n=n, method="cluster bootstrap")
