"""Confidences of answers: fitted on scores whose truth is known, beside loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kept.errors import EvaluationError
from kept.evaluation.ranking import Filter
from kept.kge.calibration import Calibration, Questions, fit_calibration, questions_of
from kept.kge.inductive import PageRankScorer


def random_questions(n: int = 2000, scale: float = 8.0) -> Questions:
    """Gold answers drawn from softmax(scores / scale): that is the temperature to be found."""
    draws = np.random.default_rng(0)
    scores = draws.normal(size=(n, 6)) * scale * 1.5
    chances = np.exp(scores / scale)
    chances /= chances.sum(1, keepdims=True)
    gold = np.array([draws.choice(6, p=row) for row in chances])
    return Questions(scores, gold)


def test_the_temperature_is_found_and_confidences_are_shares() -> None:
    calibration = fit_calibration(random_questions())
    assert calibration.temperature == pytest.approx(8.0, rel=0.1)
    assert calibration.error_after < 0.05 < calibration.error_before
    at_half = calibration.kept_at(0.5)
    assert 0 < at_half.n_answered < calibration.n_questions
    assert at_half.n_right / at_half.n_answered > 0.5
    shares = [one.n_answered for one in calibration.kept]
    assert shares == sorted(shares, reverse=True)
    assert calibration.kept_at(0.05) == calibration.kept[0]
    assert Calibration.from_json(calibration.as_json()) == calibration
    assert "of the softmax of plain scores" in str(calibration)


def test_what_does_not_compete_has_no_confidence() -> None:
    calibration = fit_calibration(random_questions())
    scores = np.array([9.0, 100.0, -9.0, 0.0])
    competes = np.array([True, False, True, True])
    confidences = calibration.confidences(scores, competes)
    assert confidences[1] == 0
    assert confidences[0] == max(confidences)
    alone = calibration.confidences(np.array([9.0, -np.inf, -9.0, 0.0]), competes)
    assert confidences.tolist() == alone.tolist()


def test_known_answers_and_the_entity_itself_do_not_compete() -> None:
    class Same:
        def scores(self, direction, triples, /):
            return torch.arange(5.0).expand(len(triples), -1)

    triples = {"all": np.array([[0, 0, 1], [0, 0, 3], [2, 0, 2]])}
    known = Filter(triples, n_entities=5, n_relations=1)
    questions = questions_of(Same(), np.array([[0, 0, 3], [2, 0, 2]]), filter=known, seed=0,
                        directions=("tail",))  # fmt: skip
    assert questions.gold.tolist() == [3, 2]
    assert np.isfinite(questions.scores).tolist() == [
        [False, False, True, True, True], [True, True, True, True, True],
    ]  # fmt: skip
    with pytest.raises(EvaluationError, match="needs two at least"):
        fit_calibration(Questions(np.zeros((1, 3)), np.zeros(1, np.int64)))


def test_page_rank_equals_a_dense_walk() -> None:
    rows = np.array([[0, 0, 1], [1, 1, 2], [2, 0, 0], [3, 0, 2]])
    scorer = PageRankScorer(rows, n_entities=5, n_iterations=60)
    walk = np.zeros((5, 5))
    for head, _, tail in rows.tolist():
        walk[head, tail] += 1
        walk[tail, head] += 1
    walk /= np.maximum(walk.sum(1, keepdims=True), 1)
    for side, slot in (("tail", 0), ("head", 2)):
        queries = torch.tensor([[3, 0, 4], [1, 1, 0], [3, 0, 1]])
        scores = scorer.scores(side, queries).double().numpy()  # type: ignore[arg-type]
        for row, anchor in enumerate(queries[:, slot].tolist()):
            start = np.eye(5)[anchor]
            expected = 0.15 * np.linalg.inv(np.eye(5) - 0.85 * walk.T) @ start
            assert np.allclose(scores[row], expected, atol=1e-4)
    with pytest.raises(EvaluationError, match="leave the direction relation out"):
        scorer.scores("relation", queries)
