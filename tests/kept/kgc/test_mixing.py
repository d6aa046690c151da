"""Weights of mixed scorers against a search over a grid, by loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from kept.errors import EvaluationError
from kept.evaluation.ranking import Direction, Filter
from kept.kgc.mixing import MixedScorer, Mixture, ValidationQueries, fit_mixture, fit_weights

N, M = 6, 30


def questions(n: int = 120, seed: int = 0) -> ValidationQueries:
    """The first scorer knows half of the answers, the second the other half, the third none."""
    draws = np.random.default_rng(seed)
    scores, gold = draws.normal(size=(n, 3, N)), draws.integers(N, size=n)
    for i in range(n):
        scores[i, i % 2, gold[i]] += 1.5
        blocked = (gold[i] + 1) % N
        scores[i, :, blocked] = -np.inf
    return ValidationQueries(scores, gold, np.arange(n) % 2, (np.arange(n) // 2) % 2)


def loss(validation: ValidationQueries, weights: list[float]) -> float:
    """Cross entropy, a question and a candidate at a time."""
    total = 0.0
    for scores, gold in zip(validation.scores, validation.gold, strict=True):
        mixed = [
            sum(w * s for w, s in zip(weights, scores[:, candidate], strict=True))
            for candidate in range(N) if math.isfinite(scores[0, candidate])
        ]  # fmt: skip
        right = sum(w * s for w, s in zip(weights, scores[:, gold], strict=True))
        total += math.log(sum(math.exp(one) for one in mixed)) - right
    return total


def test_weights_are_the_best_of_a_grid() -> None:
    validation = questions()
    weights = fit_weights(validation, "all", 2)
    assert weights.shape == (2, 2, 3)
    assert (weights == weights[0, 0]).all()
    steps = [x / 4 for x in range(9)]
    grid = min(loss(validation, [a, b, c]) for a in steps for b in steps for c in (0.0, 0.25))
    assert loss(validation, weights[0, 0].tolist()) <= grid + 1e-6
    assert weights[0, 0, 2] < 0.2 < weights[0, 0, :2].min()


def test_a_direction_has_weights_of_its_own() -> None:
    """Questions of the first direction are those that the first scorer answers."""
    weights = fit_weights(questions(), "direction", 2)
    assert weights[0, 0, 0] > 5 * weights[0, 0, 1]
    assert weights[1, 0, 1] > 5 * weights[1, 0, 0]
    relation_weights = fit_weights(questions(), "relation", 2)
    assert not np.allclose(relation_weights[:, 0], relation_weights[:, 1])


class Table:
    def __init__(self, seed: int, knows: int) -> None:
        self.knows = knows
        self.noise = np.random.default_rng(seed).normal(size=(M, M))

    def scores(self, direction: Direction, triples: torch.Tensor, /) -> torch.Tensor:
        rows = self.noise[triples[:, 0 if direction == "tail" else 2].numpy()].copy()
        for i, (head, _, tail) in enumerate(triples.tolist()):
            if head % 2 == self.knows:
                rows[i, tail if direction == "tail" else head] += 5
        return torch.from_numpy(rows)


def test_what_is_chosen_was_tried_on_other_questions() -> None:
    triples = np.array([(h, 0, (h + s) % M) for h in range(M) for s in (1, 2)])
    known = Filter({"valid": triples}, n_entities=M, n_relations=2)
    scorers = [Table(0, 0), Table(1, 1)]
    mixture = fit_mixture(scorers, triples, filter=known, n_relations=2, seed=0)
    assert mixture.tried.keys() == {"scorer 0", "scorer 1", "all", "direction", "relation"}
    assert mixture.tried[mixture.level] > mixture.tried["scorer 0"]
    assert Mixture.from_json(mixture.as_json()).as_json() == mixture.as_json()
    unknown = MixedScorer(scorers, mixture, np.array([-1]))
    row = torch.from_numpy(triples[:1])
    expected = sum(
        one.scores("tail", row)[0] * weight / spread
        for one, weight, spread in zip(
            scorers, mixture.weights[1].mean(0), mixture.spreads, strict=True
        )
    )
    scores = unknown.scores("tail", row)[0].double()
    assert torch.allclose(scores, torch.as_tensor(expected), atol=1e-5)
    with pytest.raises(EvaluationError, match="ranks heads and tails"):
        unknown.scores("relation", row)
    with pytest.raises(EvaluationError, match="2 of each"):
        fit_mixture(scorers[:1], triples, filter=known, n_relations=2, seed=0)
