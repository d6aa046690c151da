"""Measures of calibration against loops, scikit-learn and simulated answers."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from entity_linking.calibration.reliability import (
    brier_score,
    calibration_score,
    draw_reliability,
    negative_log_likelihood,
    reliability,
)
from entity_linking.errors import ScoreError

ANSWERS = st.lists(st.tuples(st.integers(0, 20).map(lambda i: i / 20), st.booleans()), min_size=2)


def simulated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Answers that are right exactly as often as they say."""
    draws = np.random.default_rng(seed)
    sure = draws.beta(2, 1, n)
    return sure, draws.random(n) < sure


@settings(deadline=None)
@given(ANSWERS, st.integers(1, 12))
def test_bins_of_equal_width_equal_a_loop(answers: list[tuple[float, bool]], n_bins: int) -> None:
    sure, right = zip(*answers, strict=True)
    actual = reliability(sure, right, n_bins)
    total, widest, n_seen = 0.0, 0.0, 0
    edges = np.linspace(0, 1, n_bins + 1)
    for k in range(n_bins):
        inside = [(c, r) for c, r in answers if edges[k] < c <= edges[k + 1] or (k == 0 and c == 0)]
        if inside:
            gap = abs(sum(c for c, _ in inside) - sum(r for _, r in inside)) / len(inside)
            total += gap * len(inside) / len(answers)
            widest = max(widest, gap)
            n_seen += 1
    assert actual.expected_error == pytest.approx(total)
    assert actual.maximum_error == pytest.approx(widest)
    assert (len(actual.bins), actual.n) == (n_seen, len(answers))


@pytest.mark.parametrize(("equal", "strategy"), [("width", "uniform"), ("mass", "quantile")])
def test_bins_equal_scikit_learns(equal: str, strategy: str) -> None:
    sure, right = simulated(3000)
    actual = reliability(sure, right, 15, equal=equal)  # type: ignore[arg-type]
    true, mean = calibration_curve(right, sure, n_bins=15, strategy=strategy)
    np.testing.assert_allclose([b.accuracy for b in actual.bins], true)
    np.testing.assert_allclose([b.confidence for b in actual.bins], mean)
    if equal == "mass":
        assert {b.n for b in actual.bins} == {200}


def test_brier_and_likelihood_equal_scikit_learns() -> None:
    sure, right = simulated(500)
    assert brier_score(sure, right) == pytest.approx(brier_score_loss(right, sure))
    assert negative_log_likelihood(sure, right) == pytest.approx(log_loss(right, sure))
    assert negative_log_likelihood([0.0], [1]) == pytest.approx(-math.log(1e-12))


def test_what_keeps_its_promise_has_small_errors() -> None:
    sure, right = simulated(40_000)
    score = calibration_score(sure, right)
    assert max(score.ece_width, score.ece_mass) < 0.012
    assert calibration_score(sure**3, right).ece_width > 0.1
    assert score.confidence == pytest.approx(score.accuracy, abs=0.01)
    assert "15 bins of equal width" in str(score)


def test_ties_stay_in_one_bin() -> None:
    sure = [0.5] * 90 + [0.9] * 10
    actual = reliability(sure, [True] * 100, 10, equal="mass")
    assert [b.n for b in actual.bins] == [90, 10]


def test_the_picture_is_whole(tmp_path: Path) -> None:
    sure, right = simulated(400)
    path = tmp_path / "reliability.png"
    draw_reliability(reliability(sure**2, right), reliability(sure, right), path, title="Both")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert list(tmp_path.iterdir()) == [path]


def test_the_measures_load_no_matplotlib() -> None:
    code = (
        "import sys, entity_linking.calibration.reliability, entity_linking.scoring; "
        "sys.exit(any(name in sys.modules for name in ('matplotlib', 'sklearn', 'scipy', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("sure", "right", "message"),
    [
        ([], [], "at least one"),
        ([0.1], [1, 0], r"\(1,\) and \(2,\)"),
        ([1.5], [1], "from 1.5 to 1.5"),
        ([float("nan")], [1], "outside"),
        ([0.5], [2], "right .1. or wrong"),
    ],
)
def test_faults_of_answers_are_told(sure: list[float], right: list[int], message: str) -> None:
    with pytest.raises(ScoreError, match=message):
        reliability(sure, right)
    with pytest.raises(ScoreError, match="0 bins"):
        reliability([0.5], [1], 0)
