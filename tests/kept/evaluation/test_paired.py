"""Paired intervals and tests over summed counts, against loops over the same draws."""

from __future__ import annotations

import numpy as np
import pytest

from kept.errors import EvaluationError
from kept.evaluation.paired import (
    Counts,
    by_cluster,
    difference_interval,
    f1_value,
    score_interval,
)

# right, found, wanted; micro F1 is no mean of the items' own
OURS = np.array([[2, 2, 3], [1, 1, 2], [1, 2, 1], [3, 3, 3], [0, 1, 0]], np.float64)
THEIRS = np.array([[1, 2, 3], [0, 3, 2], [1, 2, 1], [1, 4, 3], [1, 1, 1]], np.float64)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def f1(rows: list[Counts]) -> float:
    right, n_predicted, wanted = np.sum(rows, axis=0)
    return 2 * right / max(n_predicted + wanted, 1)


def test_f1_of_nothing_is_0() -> None:
    assert f1_value(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).tolist() == [0.0, 1.0]


def test_clusters_are_summed_in_order_of_appearance() -> None:
    sums = by_cluster(OURS, ["b", "a", "b", "c", "a"])
    np.testing.assert_array_equal(sums, [OURS[0] + OURS[2], OURS[1] + OURS[4], OURS[3]])
    with pytest.raises(EvaluationError, match="5 items have 2 cluster keys"):
        by_cluster(OURS, "ab")


@pytest.mark.parametrize("confidence", [0.95, 0.5, 0.2])
def test_intervals_equal_a_loop(confidence: float) -> None:
    """The items of a draw, as often as they were drawn, in both systems alike."""
    draws = rng().multinomial(5, [0.2] * 5, size=400)
    scores, differences = [], []
    for times in draws:
        items = np.repeat(np.arange(5), times)
        scores.append(f1([OURS[i] for i in items]))
        differences.append(scores[-1] - f1([THEIRS[i] for i in items]))
    limits = [(1 - confidence) / 2, (1 + confidence) / 2]
    options = {"n_resamples": 400, "confidence": confidence}
    alone = score_interval(OURS, f1_value, generator=rng(), **options)  # type: ignore[arg-type]
    assert (alone.low, alone.high) == pytest.approx(tuple(np.quantile(scores, limits)))
    assert (alone.estimate, alone.n, alone.confidence) == (f1([*OURS]), 5, confidence)
    paired = difference_interval(OURS, THEIRS, f1_value, generator=rng(), **options)  # type: ignore[arg-type]
    assert (paired.low, paired.high) == pytest.approx(tuple(np.quantile(differences, limits)))
    assert paired.estimate == pytest.approx(f1([*OURS]) - f1([*THEIRS]))


def test_meaningless_requests_are_errors() -> None:
    with pytest.raises(EvaluationError, match="at least two"):
        score_interval(OURS[:1], f1_value, generator=rng())
    with pytest.raises(EvaluationError, match="equal shapes"):
        difference_interval(OURS, THEIRS[:4], f1_value, generator=rng())
