"""Classification metrics against scikit-learn; edge cases."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from kept.evaluation.classification import (
    macro_scores,
    masked_accuracy,
    micro_scores,
    typing_scores,
)


@pytest.mark.parametrize("seed", range(5))
def test_macro_and_micro_equal_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    predicted, gold = generator.integers(0, 5, (2, 40))
    expected = metrics.precision_recall_fscore_support(
        gold, predicted, average="macro", zero_division=0
    )
    ours = macro_scores(predicted, gold)
    np.testing.assert_allclose([ours.precision, ours.recall, ours.f1], expected[:3])
    expected = metrics.precision_recall_fscore_support(
        gold, predicted, labels=[0, 1, 3, 4], average="micro", zero_division=0
    )
    ours = micro_scores(predicted, gold, no_relation=2)
    np.testing.assert_allclose([ours.precision, ours.recall, ours.f1], expected[:3])
    everything = micro_scores(predicted, gold, no_relation=None)
    assert everything.f1 == pytest.approx(metrics.accuracy_score(gold, predicted))
    assert everything.n == 40


def test_typing_equals_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    logits, gold = generator.normal(size=(30, 4)), generator.integers(0, 2, (30, 4))
    ours = typing_scores(logits, gold, threshold=0.2)
    expected = metrics.precision_recall_fscore_support(gold, logits > 0.2, average="micro")
    np.testing.assert_allclose(
        [ours.micro.precision, ours.micro.recall, ours.micro.f1], expected[:3]
    )
    assert ours.exact == pytest.approx(metrics.accuracy_score(gold, logits > 0.2))


def test_nothing_predicted_and_nothing_asked() -> None:
    none = typing_scores([[-1.0, 0.0]], [[1, 0]], threshold=0.0)
    assert (none.micro.precision, none.micro.recall, none.micro.f1, none.exact) == (0, 0, 0, 0)
    assert micro_scores([0, 0], [0, 0], no_relation=0).f1 == 0
    assert macro_scores([], []).n == 0
    assert masked_accuracy([[[0.0, 1.0]]], [[-100]]) == 0
    with pytest.raises(ValueError, match=r"shape \(1,\), gold labels \(2,\)"):
        macro_scores([1], [1, 2])
