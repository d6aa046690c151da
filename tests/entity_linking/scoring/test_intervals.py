"""Bootstrap of ratios against resampling by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from entity_linking.errors import ScoreError
from entity_linking.randomness import generator
from entity_linking.scoring import intervals
from entity_linking.scoring.intervals import (
    by_count,
    by_position,
    paired_ratio_interval,
    ratio_interval,
    resampled,
)


def test_a_ratio_equals_resampling_by_hand() -> None:
    above, below = np.array([1.0, 0.0, 2.0, 1.0]), np.array([2.0, 0.0, 2.0, 4.0])
    actual = ratio_interval(above, below, generator=generator(3, "x"), n_resamples=50)
    assert (actual.estimate, actual.n, actual.method) == (0.5, 4, "bootstrap")
    samples = generator(3, "x").integers(4, size=(50, 4))
    values = []
    for rows in samples.tolist():
        total = sum(below[i] for i in rows)
        values.append(sum(above[i] for i in rows) / total if total else 0.0)
    assert (actual.low, actual.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_a_pair_draws_the_same_items() -> None:
    ours = (np.array([1.0, 0.0, 2.0]), np.array([2.0, 1.0, 2.0]))
    shifted = (ours[0] + ours[1], ours[1])
    actual = paired_ratio_interval(shifted, ours, generator=generator(0, "x"), n_resamples=100)
    assert (actual.estimate, actual.low, actual.high) == pytest.approx((1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("above", "below", "confidence", "message"),
    [
        ([1.0], [1.0], 0.95, "at least two items, there are 1"),
        ([1.0, 2.0], [1.0], 0.95, r"\[2, 1\]"),
        ([1.0, np.nan], [1.0, 1.0], 0.95, "finite"),
        ([1.0, 1.0], [1.0, 1.0], 1.0, r"outside \(0, 1\)"),
    ],
)
def test_faults_are_told(
    above: list[float], below: list[float], confidence: float, message: str
) -> None:
    with pytest.raises(ScoreError, match=message):
        ratio_interval(above, below, generator=generator(0), confidence=confidence)


def test_a_pair_is_cut_at_its_quantiles_and_needs_two_items() -> None:
    ours = (np.array([1.0, 0.0, 2.0, 0.0]), np.array([1.0, 1.0, 2.0, 2.0]))
    theirs = (np.array([0.0, 1.0, 1.0, 1.0]), ours[1])
    actual = paired_ratio_interval(ours, theirs, generator=generator(1, "x"), n_resamples=60)
    assert (actual.estimate, actual.n) == (0.0, 4)
    values = []
    for rows in generator(1, "x").integers(4, size=(60, 4)).tolist():
        total = sum(ours[1][i] for i in rows)
        values.append(sum(ours[0][i] - theirs[0][i] for i in rows) / total)
    assert (actual.low, actual.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    one = (np.array([1.0]), np.array([1.0]))
    with pytest.raises(ScoreError, match="at least two items"):
        paired_ratio_interval(one, one, generator=generator(0))


@pytest.mark.parametrize("draw", [by_position, by_count])
def test_each_resample_draws_as_many_items_as_there_are(draw: Any) -> None:
    parts = np.random.default_rng(1).random((7, 3))
    blocks = [*resampled(parts, np.random.default_rng(2), 500, draw)]
    counts = draw(np.random.default_rng(2), 7, 500)
    assert (counts.sum(1) == 7).all()
    assert abs(counts.mean() - 1) < 1e-9
    assert 0.75 < counts.var(0).mean() < 0.97  # a binomial of 7 items: 6 / 7
    np.testing.assert_allclose(np.concatenate(blocks), counts @ parts)


def test_blocks_draw_what_one_block_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = np.random.default_rng(1).random((7, 3))
    for draw in (by_position, by_count):
        (whole,) = resampled(parts, np.random.default_rng(2), 50, draw)
        with monkeypatch.context() as patch:
            patch.setattr(intervals, "_BLOCK", 7 * 8)
            blocks = [*resampled(parts, np.random.default_rng(2), 50, draw)]
        assert [len(block) for block in blocks] == [8] * 6 + [2]
        np.testing.assert_allclose(np.concatenate(blocks), whole)
