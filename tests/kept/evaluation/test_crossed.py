"""Effects over seeds and items, against scipy, loops, tables and simulated comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kept.errors import EvaluationError
from kept.evaluation.crossed import ITEMS_ALONE, Effect, difference, effect
from kept.evaluation.paired import Counts, f1_value

TABLE = np.array([[3.0, 5, 4, 9], [1, 2, 6, 7], [8, 8, 9, 14]])  # [seed item]


def mean(sums: Counts) -> Counts:
    """The mean of (value, 1) counts."""
    return np.asarray(sums[:, 0] / sums[:, 1])


def counted(table: Counts) -> Counts:
    return np.stack([table, np.ones_like(table)], axis=-1)


def test_parts_of_the_variance_by_hand() -> None:
    """The analysis of variance of a table of three seeds and four items, sum by sum."""
    estimate = effect(counted(TABLE), mean)
    rows, columns, whole = TABLE.mean(1), TABLE.mean(0), TABLE.mean()
    of_rows = 4 * sum((row - whole) ** 2 for row in rows) / 2
    of_columns = 3 * sum((column - whole) ** 2 for column in columns) / 3
    rest = sum(
        (TABLE[i, j] - rows[i] - columns[j] + whole) ** 2 for i in range(3) for j in range(4)
    )
    rest /= 2 * 3
    assert estimate.estimate == pytest.approx(whole)
    assert estimate.of_seeds == pytest.approx(of_rows / 12)
    assert estimate.of_items == pytest.approx((of_columns - rest) / 12)
    total = (of_rows + of_columns - rest) / 12  # the mean squares' estimate of the mean's variance
    assert estimate.standard_error == pytest.approx(total**0.5)


def test_without_spread_of_items_it_is_the_t_test_over_seeds() -> None:
    table = np.repeat(np.array([[0.01], [0.07], [0.071]]), 5, axis=1)
    estimate = effect(counted(table), mean)
    expected = stats.ttest_1samp(table[:, 0], 0)
    limits = expected.confidence_interval(0.95)
    interval = estimate.interval()
    assert estimate.p == pytest.approx(expected.pvalue)
    assert (interval.low, interval.high) == pytest.approx((limits.low, limits.high))


def test_without_spread_of_seeds_it_is_the_t_test_over_items() -> None:
    items = np.random.default_rng(0).normal(0.2, 1, 60)
    estimate = effect(counted(np.repeat(items[None], 4, axis=0)), mean)
    expected = stats.ttest_1samp(items, 0)
    limits = expected.confidence_interval(0.95)
    interval = estimate.interval()
    assert estimate.p == pytest.approx(expected.pvalue, rel=1e-3)
    assert (interval.low, interval.high) == pytest.approx((limits.low, limits.high), rel=1e-3)
    assert (interval.n, interval.method) == (60, "seeds x items")


def test_quantiles_are_those_of_tables() -> None:
    """Sukhatme's table of Behrens and Fisher's test, 5 %, equal variances (Fisher and Yates VI)."""
    for df, expected in ((6, 2.435), (8, 2.292), (12, 2.167), (24, 2.056)):
        with_known_error = Effect(0.0, 0.5, 0.5, n_seeds=df + 1, n_items=df + 1)
        assert with_known_error.interval().high == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_p_is_the_share_of_draws_farther_away(share: float) -> None:
    draws = np.random.default_rng(1)
    error = share**0.5 * draws.standard_t(2, 400_000) + (1 - share) ** 0.5 * draws.standard_t(
        49, 400_000
    )
    for estimate in (0.5, 2.0, 4.0):
        with_known_error = Effect(estimate, share, 1 - share, n_seeds=3, n_items=50)
        assert with_known_error.p == pytest.approx((np.abs(error) >= estimate).mean(), abs=0.003)


def test_equivalence_is_two_one_sided_tests() -> None:
    """Over seeds alone, scipy's one-sided tests at either end of the margin."""
    values = np.array([0.004, -0.002, 0.003, 0.001])
    estimated = Effect(float(values.mean()), float(values.var(ddof=1) / 4), 0.0, 4, 100)
    for margin in (0.002, 0.01, 0.02):
        above = stats.ttest_1samp(values, margin, alternative="less").pvalue
        below = stats.ttest_1samp(values, -margin, alternative="greater").pvalue
        assert estimated.p_equivalent(margin) == pytest.approx(max(above, below), rel=1e-3)
    assert estimated.p_equivalent(estimated.ruled_out) == pytest.approx(0.05)
    assert estimated.p_equivalent(0.001) > 0.5  # the estimate lies beyond the margin
    with pytest.raises(EvaluationError, match="margin of equivalence is above 0, not 0"):
        estimated.p_equivalent(0)


def test_what_is_visible_is_found_four_times_of_five() -> None:
    """By drawing experiments of that effect, and where seeds decide by the power of the t test."""
    seeds = Effect(0.0, 1.0, 0.0, n_seeds=10, n_items=100)
    power = stats.nct.sf(stats.t.ppf(0.975, 9), 9, seeds.visible())
    assert power == pytest.approx(0.8)
    # the textbook's: ten pairs show .995 standard deviations (statsmodels' TTestPower: .9960)
    assert seeds.visible() / 10**0.5 == pytest.approx(0.996, abs=1e-3)
    draws = np.random.default_rng(2)
    typical = Effect(0.0, 0.5, 0.5, n_seeds=10, n_items=100)
    n_visible, n = 0, 400
    for _ in range(n):
        estimate = draws.normal(typical.visible(), 1)
        parts = 0.5 * draws.chisquare(9) / 9, 0.5 * draws.chisquare(99) / 99
        n_visible += Effect(estimate, *parts, n_seeds=10, n_items=100).p < 0.05
    assert 0.74 < n_visible / n < 0.86
    assert typical.visible(0.5) < typical.visible(0.8) < typical.visible(0.95)
    with pytest.raises(EvaluationError, match="power 1"):
        typical.visible(1.0)


def test_scores_that_are_no_means_are_left_out_one_by_one() -> None:
    draws = np.random.default_rng(3)
    wanted = draws.integers(1, 4, size=(3, 12)).astype(float)
    predicted = draws.integers(1, 4, size=(3, 12)).astype(float)
    counts = np.stack(
        [np.minimum(wanted, predicted) * draws.integers(2, size=(3, 12)), predicted, wanted]
    )
    counts = counts.transpose(1, 2, 0)

    def f1(rows: Counts) -> float:
        right, n_predicted, n_gold = rows.sum(0)
        return float(2 * right / (n_predicted + n_gold))

    result = effect(counts, f1_value)
    scores = [f1(rows) for rows in counts]
    left_out = np.array([[f1(np.delete(rows, i, axis=0)) for i in range(12)] for rows in counts])
    jackknife = 11 * (left_out.mean(1, keepdims=True) - left_out)
    rest = jackknife - jackknife.mean(0)
    expected = (jackknife.mean(0) ** 2).sum() / (12 * 11) - (rest**2).sum() / (2 * 11 * 3 * 12)
    assert result.estimate == pytest.approx(np.mean(scores))
    assert result.of_seeds == pytest.approx(np.var(scores, ddof=1) / 3)
    assert result.of_items == pytest.approx(max(expected, 0))


def test_one_seed_says_nothing_of_others() -> None:
    estimate = effect(counted(TABLE[:1]), mean)
    assert estimate.of_seeds is None
    assert estimate.interval().method == ITEMS_ALONE
    expected = stats.ttest_1samp(TABLE[0], 0).confidence_interval(0.95)
    assert estimate.interval().low == pytest.approx(expected.low, rel=1e-3)


def test_equal_systems_have_no_effect() -> None:
    ours = [counted(TABLE[0]), counted(TABLE[1])]
    gap = difference(ours, ours, mean)
    assert (gap.estimate, gap.p, gap.ruled_out, gap.visible()) == (0.0, 1.0, 0.0, 0.0)
    assert gap.p_equivalent(0.01) == 0.0
    with pytest.raises(EvaluationError, match="equal shapes"):
        difference(ours, ours[:1], mean)
    with pytest.raises(EvaluationError, match="at least two independent items"):
        effect(counted(TABLE[:, :1]), mean)
    with pytest.raises(EvaluationError, match="confidence 95"):
        gap.interval(95)


@pytest.mark.parametrize(("spread", "items_alone_at_most"), [(0.0, 0.99), (0.1, 0.6)])
def test_intervals_cover_and_verdicts_are_seldom_false(
    spread: float, items_alone_at_most: float
) -> None:
    """Right and wrong answers of three seeds to 120 items, between two equal systems.

    `benchmarks/models/intervals.md` has the long run; here 300 comparisons, four
    standard errors wide.
    """
    draws, n = np.random.default_rng(4), 300
    covered, by_items = 0, 0
    for _ in range(n):
        items = draws.normal(0, 0.2, 120)
        sides = []
        for _ in range(2):
            seeds = draws.normal(0, spread, (3, 1))
            chance = np.clip(0.5 + items + draws.normal(0, 0.1, 120) + seeds, 0, 1)
            sides.append(counted((draws.random((3, 120)) < chance).astype(float)))
        gap = difference(list(sides[0]), list(sides[1]), mean)
        interval = gap.interval()
        covered += interval.low <= 0 <= interval.high
        shared = (sides[0] - sides[1])[:, :, 0].mean(0)
        by_items += abs(shared.mean()) <= 1.98 * shared.std(ddof=1) / 120**0.5
        assert (gap.p < 0.05) == (not interval.low <= 0 <= interval.high)
    assert 0.92 <= covered / n <= 1.0
    assert by_items / n <= items_alone_at_most


def test_seeds_that_are_right_about_different_items_do_not_agree() -> None:
    """As often right with every seed, each about another item: nothing says that it is certain."""
    right = np.zeros((3, 12, 3))
    right[:, :, 1:] = 1.0
    for seed in range(3):
        right[seed, 4 * seed : 4 * seed + 2, 0] = 1.0
    agreement = effect(right, f1_value)
    assert agreement.of_seeds == 0.0
    assert agreement.estimate == pytest.approx(2 / 12)
    assert agreement.of_items > 0.0
    interval = agreement.interval()
    assert interval.low < agreement.estimate < interval.high
    assert agreement.p > 0.001
