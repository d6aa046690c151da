"""Intervals and paired tests for scores; random ones take a generator.

Axis legend: item (a question, a sentence, a seed), resample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from entity_linking.scoring.intervals import (
    Interval,
    percentile_interval,
    ratio_interval,
    resampled,
)
from kept.errors import EvaluationError

__all__ = [
    "Interval",
    "bootstrap_interval",
    "holm",
    "macro_interval",
    "paired_bootstrap_interval",
    "seed_interval",
    "sign_flip_test",
    "verdict",
]

_BLOCK = 1 << 22  # random numbers drawn at once


def bootstrap_interval(
    values: ArrayLike,
    *,
    generator: np.random.Generator,
    clusters: Sequence[object] | NDArray[np.generic] | None = None,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Percentile interval of the mean of `values [item]` (Efron and Tibshirani 1993, section 13.3).

    `clusters` gives each item a key; items of one key (both directions of a triple, paraphrases of
    a fact) are resampled together, as they are not independent. EvaluationError: fewer than two.
    """
    sums, sizes = _by_cluster(values, clusters)
    require_items(len(sums))
    require_confidence(confidence)
    interval = ratio_interval(
        sums, sizes, generator=generator, n_resamples=n_resamples, confidence=confidence
    )
    return interval if clusters is None else replace(interval, method="cluster bootstrap")


def macro_interval(
    values: ArrayLike,
    strata: Sequence[object],
    *,
    generator: np.random.Generator,
    clusters: Sequence[object] | None = None,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Percentile interval of the mean over `strata` of the mean of their `values [item]`.

    Each resample of the clusters is averaged stratum by stratum, whatever their sizes in it; a
    stratum that it misses is left out. Errors as `bootstrap_interval`.

    >>> draws = np.random.default_rng(0)
    >>> print(macro_interval([1, 1, 1, 1], ["a", "b", "b", "b"], generator=draws))
    1.0000 [1.0000, 1.0000]
    """
    keys = clusters if clusters is not None else range(np.size(values))
    if not len(keys) == len(strata) == np.size(values):
        raise EvaluationError(
            f"{np.size(values)} values have {len(keys)} cluster keys and {len(strata)} strata"
        )
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    columns = {name: number for number, name in enumerate(dict.fromkeys(strata))}
    require_items(len(numbers))
    require_confidence(confidence)
    parts = np.zeros((len(numbers), 2, len(columns)))  # sums, sizes
    rows, columns_of_rows = [numbers[key] for key in keys], [columns[name] for name in strata]
    np.add.at(parts, (rows, 0, columns_of_rows), np.asarray(values, np.float64).ravel())
    np.add.at(parts, (rows, 1, columns_of_rows), 1.0)
    blocks = resampled(parts.reshape(len(parts), -1), generator, n_resamples)
    means = np.concatenate([_macro(sums.reshape(-1, *parts.shape[1:])) for sums in blocks])
    method = "bootstrap" if clusters is None else "cluster bootstrap"
    estimate = _macro(parts.sum(0))
    return percentile_interval(estimate, means, confidence, n=len(parts), method=method)


def _macro(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of sums over sizes, `[... (sum, size) stratum]`, without strata of size 0."""
    sums, sizes = parts[..., 0, :], parts[..., 1, :]
    means = np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)
    return np.asarray(means.sum(-1) / (sizes > 0).sum(-1))


def paired_bootstrap_interval(
    ours: ArrayLike,
    theirs: ArrayLike,
    *,
    generator: np.random.Generator,
    clusters: Sequence[object] | NDArray[np.generic] | None = None,
    n_resamples: int = 2000,
    confidence: float = 0.95,
) -> Interval:
    """Interval of mean(ours - theirs) on the same items `[item]`."""
    return bootstrap_interval(
        _differences(ours, theirs),
        generator=generator,
        clusters=clusters,
        n_resamples=n_resamples,
        confidence=confidence,
    )


def sign_flip_test(
    ours: ArrayLike,
    theirs: ArrayLike,
    *,
    generator: np.random.Generator,
    clusters: Sequence[object] | NDArray[np.generic] | None = None,
    n_flips: int = 10_000,
) -> float:
    """Return the two-sided p of a paired permutation test of ours against theirs.

    Exact over all sign patterns where there are no more than `n_flips` of them; otherwise
    (hits + 1) / (n_flips + 1), which is never 0. Clusters flip as one.
    """
    sums, _ = _by_cluster(_differences(ours, theirs), clusters)
    n = len(sums)
    if n < 1:
        raise EvaluationError("a paired test needs at least one pair")
    observed = abs(sums.sum()) * (1 - 1e-12) - 1e-15
    if n < 63 and 2**n <= n_flips:
        patterns = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return float((np.abs((1 - 2 * patterns) @ sums) >= observed).mean())
    hits, step = 0, max(1, _BLOCK // n)
    for start in range(0, n_flips, step):
        signs = generator.integers(2, size=(min(step, n_flips - start), n)) * 2 - 1
        hits += int((np.abs(signs @ sums) >= observed).sum())
    return (hits + 1) / (n_flips + 1)


def verdict(difference: Interval, p: float, *, ours: str, theirs: str) -> str:
    """Say in words whether ours differs from theirs: interval and test must agree, at 5 %.

    >>> verdict(Interval(0.1, 0.02, 0.18, 0.95, 50, "bootstrap"), 0.06, ours="A", theirs="B")
    'no difference is shown'
    """
    if p < 0.05 and difference.low > 0:
        return f"{ours} is better"
    if p < 0.05 and difference.high < 0:
        return f"{theirs} is better"
    return "no difference is shown"


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values corrected for multiple comparisons (Holm 1979), in their order.

    >>> holm([0.04, 0.01])
    [0.04, 0.02]
    """
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, largest = [1.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def seed_interval(values: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Student's t interval of the mean over runs `[item]` with different seeds."""
    runs = np.asarray(values, np.float64)
    require_items(len(runs))
    require_confidence(confidence)
    t = stdtrit(len(runs) - 1, (1 + confidence) / 2)
    spread = t * runs.std(ddof=1) / len(runs) ** 0.5
    mean = float(runs.mean())
    low, high = mean - float(spread), mean + float(spread)
    return Interval(mean, low, high, confidence, len(runs), "t over seeds")


def _by_cluster(
    values: ArrayLike, clusters: Sequence[object] | NDArray[np.generic] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    items = np.asarray(values, np.float64).ravel()
    if not np.isfinite(items).all():
        raise EvaluationError(f"{int((~np.isfinite(items)).sum())} values are not finite")
    if clusters is None:
        return items, np.ones_like(items)
    if len(clusters) != len(items):
        raise EvaluationError(f"{len(items)} values have {len(clusters)} cluster keys")
    numbers: dict[object, int] = {}
    ids = np.array([numbers.setdefault(_key(key), len(numbers)) for key in clusters], np.int64)
    counts = np.bincount(ids, minlength=len(numbers)).astype(np.float64)
    sums = np.bincount(ids, items, minlength=len(numbers)).astype(np.float64)
    return sums, counts


def _key(key: object) -> object:
    return tuple(key.tolist()) if isinstance(key, np.ndarray) else key


def _differences(ours: ArrayLike, theirs: ArrayLike) -> NDArray[np.float64]:
    left, right = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    require_pairs(left, right)
    return left - right


def require_items(n: int) -> None:
    """Raise `EvaluationError` below two items, of which no interval can be given."""
    if n < 2:
        raise EvaluationError(f"an interval needs at least two independent items, there are {n}")


def require_confidence(confidence: float) -> None:
    """Raise `EvaluationError` for a confidence outside (0, 1)."""
    if not 0 < confidence < 1:
        raise EvaluationError(f"confidence {confidence} is outside (0, 1)")


def require_pairs(ours: NDArray[np.generic], theirs: NDArray[np.generic]) -> None:
    """Raise `EvaluationError` for two sides of different shapes."""
    if ours.shape != theirs.shape:
        raise EvaluationError(f"pairs need equal shapes, not {ours.shape} and {theirs.shape}")
