"""Correlations against SciPy and by hand, their intervals, and what a constant side gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from kept.errors import EvaluationError
from kept.evaluation.correlation import CORRELATIONS, pearson, pearson_parts, spearman_parts
from kept.evaluation.paired import by_cluster, difference_interval, score_interval
from kept.randomness import generator

NUMBERS = st.lists(st.tuples(st.integers(-8, 8), st.integers(-8, 8)), min_size=3, max_size=30).map(
    lambda pairs: np.array(pairs, np.float64).T / 4
)


def score(name: str, ours: object, gold: object) -> float:
    parts, value = CORRELATIONS[name]
    return float(value(parts(ours, gold).sum(axis=0)[None])[0])  # type: ignore[arg-type]


@given(NUMBERS, st.sampled_from([0.0, 1e6]))
def test_they_are_scipys(sides: np.ndarray, shift: float) -> None:
    ours, gold = sides[0] + shift, sides[1] - shift
    assume(np.ptp(sides[0]) > 0 and np.ptp(sides[1]) > 0)
    assert score("pearson", ours, gold) == pytest.approx(stats.pearsonr(*sides)[0], abs=1e-7)
    assert score("spearman", ours, gold) == pytest.approx(stats.spearmanr(*sides)[0], abs=1e-7)
    wanted = float(((ours - gold) ** 2).mean())
    assert score("mean_squared_error", ours, gold) == pytest.approx(wanted)


def test_a_constant_side_counts_as_zero() -> None:
    for ours in ([3.7] * 4, [0.1] * 4):
        assert score("pearson", ours, [1, 2, 3, 4]) == score("spearman", ours, [1, 2, 3, 4]) == 0
        assert score("pearson", [1, 2, 3, 4], ours) == 0
    drawn_alone = pearson_parts([1, 2, 4], [1, 3, 3]) * np.array([[5.0], [0], [0]])
    assert pearson(drawn_alone.sum(axis=0)[None])[0] == 0  # a resample of one item


def test_an_interval_draws_whole_groups() -> None:
    draws = np.random.default_rng(0)
    gold = draws.normal(size=200)
    ours = gold + draws.normal(size=200)
    parts = pearson_parts(ours, gold)
    alone = score_interval(parts, pearson, generator=generator(0, "a"))
    assert alone.low < stats.pearsonr(ours, gold)[0] < alone.high
    twice = np.concatenate([parts, parts])
    groups = [*range(200), *range(200)]
    copied = score_interval(by_cluster(twice, groups), pearson, generator=generator(0, "a"))
    assert (copied.n, copied.low, copied.high) == (
        200, pytest.approx(alone.low), pytest.approx(alone.high)
    )  # fmt: skip
    worse = pearson_parts(draws.normal(size=200), gold)
    gain = difference_interval(parts, worse, pearson, generator=generator(0, "b"))
    assert gain.low > 0


def test_faults_are_named() -> None:
    with pytest.raises(EvaluationError, match="2 predicted numbers for 1"):
        pearson_parts([1, 2], [1])
    with pytest.raises(EvaluationError, match="finite"):
        spearman_parts([1, float("nan")], [1, 2])
