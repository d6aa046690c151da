"""Intervals and tests against scipy, enumeration and known coverage."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kept.errors import EvaluationError
from kept.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    holm,
    macro_interval,
    paired_bootstrap_interval,
    seed_interval,
    sign_flip_test,
    verdict,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_bootstrap_interval_covers_the_true_mean_about_as_often_as_it_says():
    draws, covered = rng(1), 0
    for _ in range(200):
        interval = bootstrap_interval(draws.normal(3, 1, 60), generator=draws, n_resamples=400)
        covered += interval.low <= 3 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_equal_generators_give_equal_intervals():
    values = rng(2).random(50)
    first, second = (bootstrap_interval(values, generator=rng(7)) for _ in range(2))
    assert first == second
    assert first.estimate == pytest.approx(values.mean())


def test_clusters_widen_the_interval_of_repeated_items():
    values = rng(3).random(40)
    alone = bootstrap_interval(values, generator=rng())
    doubled, keys = np.repeat(values, 5), np.repeat(np.arange(40), 5)
    naive = bootstrap_interval(doubled, generator=rng())
    clustered = bootstrap_interval(doubled, generator=rng(), clusters=keys)
    assert (clustered.low, clustered.high) == pytest.approx((alone.low, alone.high))
    assert naive.high - naive.low < 0.6 * (clustered.high - clustered.low)
    assert clustered.n == 40


def test_cluster_keys_may_be_rows_of_triples():
    triples = np.array([[0, 1, 2], [0, 1, 2], [3, 4, 5]])
    interval = bootstrap_interval([1.0, 0.0, 1.0], generator=rng(), clusters=triples)
    assert (interval.n, interval.method) == (2, "cluster bootstrap")


def test_the_sizes_of_strata_are_no_error():
    strata = ["small"] * 10 + ["large"] * 990
    sure = macro_interval(np.ones(1000), strata, generator=rng())
    assert (sure.estimate, sure.low, sure.high) == (1.0, 1.0, 1.0)
    values = np.concatenate([np.arange(10) < 5, rng(2).random(990) < 0.1])
    interval = macro_interval(values, strata, generator=rng())
    small = bootstrap_interval(values[:10], generator=rng())
    assert interval.estimate == pytest.approx((0.5 + values[10:].mean()) / 2)
    assert interval.high - interval.low == pytest.approx((small.high - small.low) / 2, rel=0.2)


def test_macro_intervals_equal_a_loop():
    values, strata, keys = [1.0, 0, 1, 1, 0], "aabbb", "xxyzz"
    resamples, means = rng().integers(3, size=(50, 3)), []
    for resample in resamples:
        items = [i for cluster in resample for i in range(5) if keys[i] == "xyz"[cluster]]
        parts = ([values[i] for i in items if strata[i] == name] for name in "ab")
        means.append(np.mean([np.mean(part) for part in parts if part]))
    for confidence in (0.95, 0.5, 0.2):
        limits = [(1 - confidence) / 2, (1 + confidence) / 2]
        interval = macro_interval(
            values, strata, generator=rng(), clusters=keys, n_resamples=50, confidence=confidence
        )
        assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, limits)))
    assert (interval.n, interval.method) == (3, "cluster bootstrap")
    with pytest.raises(EvaluationError, match="5 values have 3 cluster keys and 5 strata"):
        macro_interval(values, strata, generator=rng(), clusters="xyz")
    with pytest.raises(EvaluationError, match="two independent items"):
        macro_interval(values, strata, generator=rng(), clusters="xxxxx")


def test_paired_interval_is_the_interval_of_the_differences():
    ours, theirs = rng(4).random((2, 30))
    paired = paired_bootstrap_interval(ours, theirs, generator=rng())
    assert paired == bootstrap_interval(ours - theirs, generator=rng())


def test_sign_flips_are_exact_for_few_pairs():
    ours, theirs = np.array([1.0, 2, 3, 5, 1]), np.array([0.5, 1, 4, 2, 0])
    differences = ours - theirs
    sums = [abs(np.dot(signs, differences)) for signs in product((1, -1), repeat=5)]
    expected = np.mean(np.array(sums) >= abs(differences.sum()) - 1e-9)
    assert sign_flip_test(ours, theirs, generator=rng()) == pytest.approx(expected)


def test_sign_flips_tell_a_difference_from_none():
    noise = rng(5).normal(0, 1, 200)
    assert sign_flip_test(noise + 0.5, np.zeros(200), generator=rng()) < 0.001
    assert sign_flip_test(noise, noise[::-1], generator=rng()) > 0.05
    assert sign_flip_test(noise, noise, generator=rng()) == 1.0


def test_sampled_sign_flips_agree_with_the_exact_ones():
    ours = rng(6).normal(0.4, 1, 12)
    exact = sign_flip_test(ours, np.zeros(12), generator=rng(), n_flips=4096)
    sampled = sign_flip_test(ours, np.zeros(12), generator=rng(), n_flips=4095)
    assert sampled == pytest.approx(exact, abs=0.03)


def test_sampled_p_values_are_never_0():
    assert sign_flip_test(np.ones(40), np.zeros(40), generator=rng(), n_flips=99) == 1 / 100


def test_clusters_flip_as_one():
    """Four items of two clusters have four sign patterns, of which two are as far from 0."""
    p = sign_flip_test(np.ones(4), np.zeros(4), generator=rng(), clusters="aabb")
    assert p == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("ps", "corrected"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 1 x 0.04 is not below 2 x 0.03
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.03, 0.03, 0.001], [0.06, 0.06, 0.003]),
        ([0.4, 0.9], [0.8, 0.9]),
        ([0.6, 0.7], [1.0, 1.0]),
        ([], []),
    ],
)
def test_holm_by_hand(ps: list[float], corrected: list[float]):
    assert holm(ps) == pytest.approx(corrected)


@given(st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.03, 0.3, 1.0]), max_size=6))
def test_holm_equals_a_loop_over_the_smaller_ones(ps: list[float]):
    """Equal p are common here; each is the worst of what it and the smaller ones are given."""
    expected = []
    for p in ps:
        rejected = sorted(other for other in ps if other <= p)
        steps = [(len(ps) - position) * other for position, other in enumerate(rejected)]
        expected.append(min(1.0, max(steps)))
    assert holm(ps) == pytest.approx(expected)


def test_a_verdict_needs_interval_and_test():
    def verdict_of(low: float, high: float, p: float) -> str:
        interval = Interval((low + high) / 2, low, high, 0.95, 9, "bootstrap")
        return verdict(interval, p, ours="A", theirs="B")

    assert verdict_of(0.1, 0.3, 0.049) == "A is better"
    assert verdict_of(-0.3, -0.1, 0.049) == "B is better"
    for low, high, p in ((0.1, 0.3, 0.05), (-0.3, -0.1, 0.05), (-0.1, 0.3, 0.01), (0, 0.3, 0.01)):
        assert verdict_of(low, high, p) == "no difference is shown"


def test_seed_interval_by_hand():
    interval = seed_interval([1.0, 2.0, 3.0])
    half = 4.302652729696142 * 1 / np.sqrt(3)
    assert (interval.low, interval.high) == pytest.approx((2 - half, 2 + half))
    assert str(interval) == "2.0000 [-0.4841, 4.4841]"


def test_meaningless_requests_are_errors():
    with pytest.raises(EvaluationError, match="at least two"):
        seed_interval([1.0])
    with pytest.raises(EvaluationError, match="at least two"):
        bootstrap_interval([1.0, 2.0], generator=rng(), clusters=["a", "a"])
    with pytest.raises(EvaluationError, match="not finite"):
        bootstrap_interval([1.0, np.nan], generator=rng())
    with pytest.raises(EvaluationError, match="equal shapes"):
        sign_flip_test([1.0], [1.0, 2.0], generator=rng())
    with pytest.raises(EvaluationError, match="cluster keys"):
        bootstrap_interval([1.0, 2.0], generator=rng(), clusters=["a"])
    with pytest.raises(EvaluationError, match="confidence"):
        seed_interval([1.0, 2.0], confidence=95)
