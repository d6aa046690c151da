"""The isotonic curve through answers: their share that is right, never falling with confidence.

Ayer et al. 1955 (Annals of Mathematical Statistics 26), by SciPy's pool-adjacent-violators.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression


def isotonic_knots(
    sure: ArrayLike, right: ArrayLike, *, least: float = 0.0, most: float = 1.0
) -> list[tuple[float, float]]:
    """Return the corners (confidence, share right) of the curve, by confidence, within bounds.

    `sure [answer]`, `right [answer]`; answers of one confidence count as one of their mean. Between
    corners the curve is straight, outside it is level, as `numpy.interp` reads it.

    >>> isotonic_knots([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    [(0.1, 0.0), (0.2, 0.5), (0.3, 0.5), (0.4, 1.0)]
    """
    points, places, counts = np.unique(
        np.asarray(sure, np.float64), return_inverse=True, return_counts=True
    )
    shares = np.bincount(places.ravel(), np.asarray(right, np.float64)) / counts
    heights = np.clip(isotonic_regression(shares, weights=counts).x, least, most)
    corners = np.ones(len(points), np.bool_)
    inner = slice(1, -1)  # a point between two of its own height is no corner
    corners[inner] = (heights[inner] != heights[:-2]) | (heights[inner] != heights[2:])
    return list(zip(points[corners].tolist(), heights[corners].tolist(), strict=True))
