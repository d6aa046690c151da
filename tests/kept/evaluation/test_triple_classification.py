"""Thresholds against every possible cut, and the numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kept.errors import EvaluationError
from kept.evaluation.triple_classification import (
    best_threshold,
    classify_triples,
    fit_thresholds,
    score_classification,
)


def n_right(cut: float, scores: np.ndarray, labels: np.ndarray) -> int:
    return sum(int((s > cut) == label) for s, label in zip(scores, labels, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_no_cut_is_better_and_no_lower_one_as_good(seed: int):
    draws = np.random.default_rng(seed)
    scores = draws.integers(0, 6, size=1 + 3 * seed).astype(np.float64)  # with ties
    labels = draws.random(len(scores)) < 0.5
    threshold = best_threshold(scores, labels)
    cuts = [-np.inf, *(v + 0.5 for v in sorted({*scores.tolist()}))]
    best = max(n_right(cut, scores, labels) for cut in cuts)
    assert n_right(threshold, scores, labels) == best
    lower = [cut for cut in cuts if (scores > cut).sum() > (scores > threshold).sum()]
    assert all(n_right(cut, scores, labels) < best for cut in lower)


def test_a_threshold_of_nothing_or_of_nan_is_an_error():
    with pytest.raises(EvaluationError, match="0 given"):
        best_threshold(np.zeros(0), np.zeros(0, np.bool_))
    with pytest.raises(EvaluationError, match="NaN"):
        best_threshold(np.array([np.nan]), np.array([True]))


def test_rare_relations_and_those_of_one_class_take_the_global_threshold():
    # relation 0: cut at 0; relation 1: cut at 10, too few; relation 2: all true; 3: absent
    scores = np.array([-1.0] * 5 + [1.0] * 5 + [9.0, 11.0] + [-5.0] * 3)
    labels = np.array([False] * 5 + [True] * 5 + [False, True] + [True] * 3)
    relations = np.repeat([0, 1, 2], [10, 2, 3])
    fitted = fit_thresholds(scores, relations, labels, n_relations=4, min_triples=3)
    overall = best_threshold(scores, labels)
    assert fitted.is_own.tolist() == [True, False, False, False]
    assert fitted.by_relation.tolist() == [0.0, overall, overall, overall]
    assert "fewer than 3 triples" in fitted.rule
    assert "1 of 4 relations" in fitted.rule
    again = fit_thresholds(scores, relations, labels, n_relations=4, min_triples=2)
    assert again.by_relation[1] == 10
    assert fitted.predict(np.array([0.0, 0.1]), np.array([0, 0])).tolist() == [False, True]


def test_accuracy_and_f1_by_hand():
    predicted = np.array([True, True, False, False, True])
    labels = np.array([True, False, True, False, True])
    score_ = score_classification(predicted, labels, rule="r", generator=np.random.default_rng(0))
    assert score_.accuracy.estimate == pytest.approx(3 / 5)
    assert score_.f1.estimate == pytest.approx(2 * 2 / (3 + 3))
    assert score_.accuracy.low <= score_.accuracy.estimate <= score_.accuracy.high
    assert (score_.n_true, score_.n_false) == (3, 2)
    with pytest.raises(EvaluationError, match="2 predictions for 5"):
        score_classification(predicted[:2], labels, rule="r", generator=np.random.default_rng(0))


def test_thresholds_come_from_validation_alone():
    def score(triples: torch.Tensor) -> torch.Tensor:
        return triples[:, 0].float()

    true = {"valid": np.array([(6, 0, 0)] * 6), "test": np.array([(4, 0, 0), (7, 0, 0)])}
    false = {"valid": np.array([(5, 0, 0)] * 6), "test": np.array([(1, 0, 0), (2, 0, 0)])}
    classified = classify_triples(score, true, false, n_relations=1,
                             generator=np.random.default_rng(0), batch_size=5)  # fmt: skip
    assert classified.accuracy.estimate == 3 / 4  # a cut fitted on test would make no mistake
    assert classified.f1.estimate == pytest.approx(2 * 1 / (1 + 2))
    assert (classified.n_true, classified.n_false) == (2, 2)
