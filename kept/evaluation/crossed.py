"""Crossed random effects of seeds and items: interval, tests and power of an effect.

Scores vary with the seed and with the test items; an effect is shown when it would be found again
with other seeds *and* other items. A bootstrap over items (seeds fixed) and Student's t over seeds
each ignore one source of variance.

Axis legend: seed, cluster (items that are not independent), count, draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, nctdtr, ndtr

from kept.errors import EvaluationError
from kept.evaluation.paired import Counts, Value, paired
from kept.evaluation.statistics import Interval, require_confidence, require_items

CROSSED, ITEMS_ALONE = "seeds x items", "items alone, of one seed"
_FEW = 30
_NODES = 128, 12  # of the integral over the chi square of few degrees of freedom, and of many


@dataclass(frozen=True)
class Effect:
    """An estimate with the parts of its variance.

    `of_seeds`: variance of the mean over seeds, their interaction with items included; None with
    one seed. `of_items`: variance of the mean over items that all seeds share.

    >>> effect = Effect(0.04, of_seeds=0.0001, of_items=0.0003, n_seeds=3, n_items=500)
    >>> print(effect.interval(), f"p {effect.p:.3f}, {effect.n_seeds} seeds")
    0.0400 [-0.0136, 0.0936] p 0.110, 3 seeds
    """

    estimate: float
    of_seeds: float | None
    of_items: float
    n_seeds: int
    n_items: int

    @property
    def standard_error(self) -> float:
        """The standard error of the estimate; over items alone with one seed."""
        return float(((self.of_seeds or 0.0) + self.of_items) ** 0.5)

    def interval(self, confidence: float = 0.95) -> Interval:
        """The estimate plus and minus a multiple of its standard error.

        With one seed it holds for that seed alone, as `method` says.
        """
        require_confidence(confidence)
        half = self.standard_error * self._multiple(confidence)
        method = ITEMS_ALONE if self.of_seeds is None else CROSSED
        low, high = self.estimate - half, self.estimate + half
        return Interval(self.estimate, low, high, confidence, self.n_items, method)

    @cached_property
    def p(self) -> float:
        """Two-sided p of "there is no effect"; 1 where all differences are 0."""
        if not self.standard_error:
            return float(self.estimate == 0)
        return self._outside(abs(self.estimate) / self.standard_error)

    def p_equivalent(self, margin: float) -> float:
        """p of "the effect is `margin` or more, either way" (Schuirmann 1987: two one-sided tests).

        Below .05, the effect is shown to be smaller than `margin`.
        """
        if margin <= 0:
            raise EvaluationError(f"a margin of equivalence is above 0, not {margin}")
        room = margin - abs(self.estimate)
        if not self.standard_error:
            return float(room <= 0)
        tail = self._outside(abs(room) / self.standard_error) / 2
        return tail if room >= 0 else 1 - tail

    @property
    def ruled_out(self) -> float:
        """The smallest margin whose equivalence test is below .05: the 90 % interval's far end."""
        interval = self.interval(0.9)
        return max(abs(interval.low), abs(interval.high))

    def visible(self, power: float = 0.8) -> float:
        """Return the smallest true effect that has this `power` at the 5 % level.

        By the noncentral t with Satterthwaite's degrees of freedom, for the estimated variances.
        """
        if not 0.05 < power < 1:
            raise EvaluationError(f"power {power} is outside (0.05, 1)")
        multiple, df = self._multiple(0.95), self._df
        if not self.standard_error:
            return 0.0
        shift = brentq(lambda x: 1 - nctdtr(df, x, multiple) - power, 0.0, 4 * multiple + 8)
        return float(shift * self.standard_error)

    @property
    def _share(self) -> float:
        """The share of the variance that is due to seeds."""
        seeds = self.of_seeds or 0.0
        return seeds / (seeds + self.of_items) if self.standard_error else 0.0

    @property
    def _df(self) -> float:
        share, n_items = self._share, max(self.n_items - 1, 1)
        return float(1 / (share**2 / max(self.n_seeds - 1, 1) + (1 - share) ** 2 / n_items))

    def _multiple(self, confidence: float) -> float:
        return _quantile(confidence, self._share, self.n_seeds, self.n_items)

    def _outside(self, multiple: float) -> float:
        return 1 - _inside(multiple, self._share, self.n_seeds, self.n_items)


def effect(counts: Counts, value: Value) -> Effect:
    """The mean over seeds of `value`, of summed counts `[seed cluster count]`, with its variances.

    Clusters enter by the jackknife, so that `value` may be any smooth score. The interaction of
    seed and cluster is part of both variances; it is taken out of the latter (two-way random
    effects: Searle, Casella and McCulloch 1992, section 4.3), unless nothing would be left: seeds
    that are right equally often about different items do not agree. Clusters of zeros alone are
    dropped.
    Raises EvaluationError for fewer than two clusters.

    >>> from kept.evaluation.paired import f1_value
    >>> right = np.array([[[1.0, 1, 1], [0, 1, 1], [1, 1, 1]], [[1, 1, 1], [0, 1, 1], [0, 1, 1]]])
    >>> found = effect(right, f1_value)
    >>> round(found.estimate, 3), round(found.of_seeds, 3), round(found.of_items, 3)
    (0.5, 0.028, 0.056)
    """
    counts = counts[:, counts.any(axis=(0, 2))]
    n_seeds, n_items = counts.shape[:2]
    require_items(n_items)
    sums = counts.sum(axis=1)
    scores = value(sums)
    without = np.stack(
        [value(total - item_counts) for total, item_counts in zip(sums, counts, strict=True)]
    )
    deviations = (n_items - 1) * (without.mean(axis=1, keepdims=True) - without)
    shared = deviations.mean(axis=0)
    of_items = float((shared**2).sum() / (n_items * (n_items - 1)))
    if n_seeds == 1:
        return Effect(float(scores[0]), None, of_items, 1, n_items)
    own_part = float(((deviations - shared) ** 2).sum() / ((n_seeds - 1) * (n_items - 1)))
    of_seeds = float(scores.var(ddof=1) / n_seeds)
    without_own = max(of_items - own_part / (n_seeds * n_items), 0.0)
    return Effect(
        estimate=float(scores.mean()),
        of_seeds=of_seeds,
        of_items=without_own if of_seeds + without_own else of_items,
        n_seeds=n_seeds,
        n_items=n_items,
    )


def difference(ours: Sequence[Counts], theirs: Sequence[Counts], value: Value) -> Effect:
    """The effect of ours minus theirs, by seed `[cluster count]`, paired in order."""
    return effect(*paired(np.stack(ours), np.stack(theirs), value))


def _inside(multiple: float, share: float, n_seeds: int, n_items: int) -> float:
    """Return the probability that the error is within `multiple` estimated standard errors.

    The error is a sum of two independent t variables of which the variances are shared as `share`:
    Fisher's solution (1935) of the problem of Behrens, by quadrature over both chi squares. With
    three seeds the interval of 95 % covers .95 to .98, with ten .95 to .96
    (`benchmarks/models/intervals.md`); Satterthwaite's degrees of freedom cover .92 there.
    """
    spread, weights = np.zeros(1), np.ones(1)
    for part, n in ((share, n_seeds), (1 - share, n_items)):
        if part:
            squares, node_weights = _inverse_chi_squares(n - 1, _NODES[n > _FEW])
            spread = (spread[:, None] + part * (n - 1) * squares).ravel()
            weights = (weights[:, None] * node_weights).ravel()
    return float(weights @ (2 * ndtr(multiple / np.sqrt(spread)) - 1))


@lru_cache(maxsize=4096)
def _quantile(confidence: float, share: float, n_seeds: int, n_items: int) -> float:
    high = 2.0
    while _inside(high, share, n_seeds, n_items) < confidence:
        high *= 2
    quantile = brentq(lambda x: _inside(x, share, n_seeds, n_items) - confidence, 0.0, high)
    return float(quantile)


@lru_cache(maxsize=256)
def _inverse_chi_squares(df: int, n_nodes: int) -> tuple[Counts, Counts]:
    """Values of 1 / chi square and their weights, closer to each other where it is large."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    probabilities = (nodes + 1) / 2
    return 1 / chdtri(df, 1 - probabilities**4), 2 * weights * probabilities**3
