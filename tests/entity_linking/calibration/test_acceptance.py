"""Thresholds by what is favoured, and the curve behind them, against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.calibration.acceptance import BETA, FAVOURS, Wish, risk_coverage, threshold
from entity_linking.errors import ScoreError

ANSWERS = st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.7, 0.9]), st.booleans()), min_size=1)


def accepted(rows: list[tuple[float, bool]], below: float) -> tuple[int, int]:
    kept = [right for sure, right in rows if sure >= below]
    return len(kept), sum(kept)


@settings(deadline=None)
@given(ANSWERS, st.integers(0, 5))
def test_the_curve_counts_what_each_threshold_accepts(
    rows: list[tuple[float, bool]], n_further: int
) -> None:
    sure, right = (np.array(column) for column in zip(*rows, strict=True))
    n_gold = int(right.sum()) + n_further
    curve = risk_coverage(sure, right, n_gold)
    for i, level in enumerate(curve.thresholds.tolist()):
        n_kept, n_right = accepted(rows, level)
        assert curve.coverage[i] == n_kept / len(rows)
        assert curve.precision[i] == n_right / n_kept
        assert curve.recall[i] == (n_right / n_gold if n_gold else 0)
    shares = [*(sum(s >= level for s in sure) / len(rows) for level in curve.thresholds), 0.0]
    area = sum(
        (a - b) * (1 - p) for a, b, p in zip(shares, shares[1:], curve.precision, strict=False)
    )
    assert curve.area == pytest.approx(area)


@settings(deadline=None)
@given(ANSWERS, st.sampled_from(FAVOURS))
def test_a_threshold_is_the_best_by_what_is_favoured(
    rows: list[tuple[float, bool]], favour: str
) -> None:
    sure, right = (np.array(column) for column in zip(*rows, strict=True))
    n_gold = int(right.sum()) + 1
    actual = threshold(risk_coverage(sure, right, n_gold), Wish(favour))  # type: ignore[arg-type]

    def f(below: float) -> float:
        n_kept, n_right = accepted(rows, below)
        weight = BETA[favour] ** 2
        return (1 + weight) * n_right / (n_kept + weight * n_gold)

    assert f(actual) == pytest.approx(max(map(f, [0.0, *sure.tolist()])))


def test_a_target_is_kept_at_the_least_cost() -> None:
    """From the top: right, right, wrong, right, wrong, of five that are to be found."""
    sure = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    curve = risk_coverage(sure, np.array([True, True, False, True, False]), 5)
    assert threshold(curve, Wish("precision", 1.0)) == pytest.approx(0.75)
    assert threshold(curve, Wish("precision", 0.75)) == pytest.approx(0.55)
    assert threshold(curve, Wish("recall", 0.4)) == pytest.approx(0.75)
    assert threshold(curve, Wish("recall", 0.6)) == pytest.approx(0.55)
    with pytest.raises(ScoreError, match=r"no threshold reaches recall 0.8: .* is 0.600"):
        threshold(curve, Wish("recall", 0.8))


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (("speed",), "choose one of f1, precision, recall"),
        (("f1", 0.5), "a target goes with favour precision or recall"),
        (("recall", 0.0), "give a share above 0"),
    ],
)
def test_wishes_are_checked(wish: tuple[str, float], message: str) -> None:
    with pytest.raises(ScoreError, match=message):
        Wish(*wish)  # type: ignore[arg-type]
