"""Pearson's and Spearman's correlation, and mean squared error, as functions of summed parts.

So the bootstrap and the paired tests of `kept.evaluation.paired` serve them too. Where one side is
constant there is no correlation; it counts as 0.

Axis legend: item, draw, part (see `PARTS`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kept.errors import EvaluationError

Floats = NDArray[np.float64]
PARTS = ("n", "ours", "gold", "ours²", "gold²", "ours gold", "error²")


def pearson_parts(ours: ArrayLike, gold: ArrayLike) -> Floats:
    """Return the parts of `pearson` and `mean_squared_error`, `[item part]`.

    Numbers are centred, which changes no correlation and no error, so that sums of large numbers
    lose no digits. EvaluationError: other lengths, or no finite number.
    """
    x, y = (np.asarray(side, np.float64).ravel() for side in (ours, gold))
    if len(x) != len(y):
        raise EvaluationError(f"{len(x)} predicted numbers for {len(y)} gold ones")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise EvaluationError("correlations need finite numbers, predicted and gold")
    error = (x - y) ** 2
    if len(x):
        x, y = x - x.mean(), y - y.mean()
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y, error], axis=1)


def spearman_parts(ours: ArrayLike, gold: ArrayLike) -> Floats:
    """As `pearson_parts`, of ranks among all items; ties share their mean rank.

    A bootstrap resamples items with their ranks among all.
    """
    from scipy.stats import rankdata  # here: slow, and for correlations alone

    return pearson_parts(rankdata(ours), rankdata(gold))


def pearson(sums: Floats) -> Floats:
    """The correlation `[draw]` of summed parts `[draw part]`.

    >>> parts = pearson_parts([1, 2, 4], [1, 3, 3])
    >>> pearson(parts.sum(axis=0)[None]).round(4)
    array([0.7559])
    """
    n, x, y, xx, yy, xy, _ = sums.T
    above = n * xy - x * y
    spread = (n * xx - x * x) * (n * yy - y * y)
    scale = (n * xx) * (n * yy)
    is_constant = spread <= 1e-12 * np.maximum(scale, np.finfo(np.float64).tiny)
    below = np.sqrt(np.where(is_constant, 1.0, spread))
    return np.where(is_constant, 0.0, np.clip(above / below, -1.0, 1.0))


def mean_squared_error(sums: Floats) -> Floats:
    """The mean squared error `[draw]` of summed parts `[draw part]`."""
    return np.asarray(sums[:, -1] / np.maximum(sums[:, 0], 1))


CORRELATIONS: dict[str, tuple[Callable[[ArrayLike, ArrayLike], Floats], Callable[[Floats], Floats]]]
CORRELATIONS = {
    "pearson": (pearson_parts, pearson),
    "spearman": (spearman_parts, pearson),
    "mean_squared_error": (pearson_parts, mean_squared_error),
}
"""By name of a score: its parts, and its function of their sums."""
