"""Several scorers as one: their scores, weighed so that validation's answers are likely.

A question's mixed score is the sum of each scorer's score over its spread, times a weight. Weights
(none below 0) minimise the cross entropy of the right answer among those that compete, which is
convex in them: one weight per scorer, or one per scorer and direction, or those of a relation too,
drawn to the direction's. Which of the three is chosen by the mean reciprocal rank on halves of
validation that the fit did not see.

Axis legend: question, scorer, candidate, relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from kept.errors import EvaluationError
from kept.evaluation.ranking import Direction, Filter, HasScores, Triples
from kept.kge.calibration import questions_of
from kept.randomness import generator

Floats = NDArray[np.float64]
Level = Literal["all", "direction", "relation"]
LEVELS: tuple[Level, ...] = ("all", "direction", "relation")
SIDES: tuple[Direction, ...] = ("head", "tail")
PULL = 20.0
"""How many questions the direction's weights count for in those of a relation."""
N_SCORES = 10_000_000
"""Scores of validation in each direction that are read at once: triples above are sampled from."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """`weights [direction relation scorer]` of scores over `spreads [scorer]`; what chose them.

    `tried` has the MRR on held-out halves of validation by level, and of each scorer alone.
    """

    weights: Floats
    spreads: Floats
    level: Level
    tried: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {
            "weights": self.weights.tolist(),
            "spreads": self.spreads.tolist(),
            "level": self.level,
            "tried": self.tried,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Mixture:
        """What `as_json` gave."""
        arrays = {name: np.array(values[name], np.float64) for name in ("weights", "spreads")}
        return cls(**arrays, level=values["level"], tried=values["tried"])


class MixedScorer:
    """The weighed sum; `relations [relation]` are the mixture's rows of the graph's relations.

    A relation without a row (-1) takes the mean of all.
    """

    def __init__(
        self, scorers: Sequence[HasScores], mixture: Mixture, relations: NDArray[np.int64]
    ) -> None:
        self.scorers = scorers
        scaled = mixture.weights / mixture.spreads
        table = np.concatenate([scaled, scaled.mean(1, keepdims=True)], 1)  # row -1: the mean
        self._weights = torch.from_numpy(table[:, relations]).float()

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; EvaluationError: the direction relation."""
        if direction == "relation":
            raise EvaluationError("a mix ranks heads and tails; leave the direction relation out")
        weights = self._weights[SIDES.index(direction)][triples[:, 1]]
        parts = [
            one.scores(direction, triples).cpu() * weights[:, i : i + 1]
            for i, one in enumerate(self.scorers)
        ]
        return torch.stack(parts).sum(0)


@dataclass(frozen=True, eq=False)
class ValidationQueries:
    """Validation questions: `scores [question scorer candidate]` over spreads, minus infinity in
    all where a candidate does not compete; `gold`, `side` and `relation [question]`."""

    scores: Floats
    gold: NDArray[np.int64]
    side: NDArray[np.int64]
    relation: NDArray[np.int64]

    def part(self, mask: NDArray[np.bool_]) -> ValidationQueries:
        """Some of the questions."""
        return ValidationQueries(*(value[mask] for value in vars(self).values()))


def fit_mixture(
    scorers: Sequence[HasScores],
    triples: Triples,
    *,
    filter: Filter,
    n_relations: int,
    seed: int,
    levels: Sequence[Level] = LEVELS,
) -> Mixture:
    """Fit on validation triples `[triple 3]`; EvaluationError: fewer than 2, or one scorer."""
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    if len(scorers) < 2 or len(rows) < 2:
        raise EvaluationError(
            f"{len(scorers)} scorers, {len(rows)} validation triples: a mix needs 2 of each"
        )
    queries, spreads = _validation_queries(scorers, rows, filter, seed)
    n = len(queries.gold) // len(SIDES)
    order = generator(seed, "halves of validation").permutation(n)
    halves = np.tile(order < (n + 1) // 2, len(SIDES))  # both questions of a triple in one
    tried = {f"scorer {i}": _mrr(queries.scores[:, i], queries.gold) for i in range(len(scorers))}
    for level in levels:
        ranks = np.zeros(len(queries.gold))
        for fitted, judged in ((halves, ~halves), (~halves, halves)):
            weights = fit_weights(queries.part(fitted), level, n_relations)
            ranks[judged] = _reciprocal(_mix(queries.part(judged), weights), queries.gold[judged])
        tried[level] = float(ranks.mean())
    best = max(levels, key=lambda level: tried[level])
    return Mixture(fit_weights(queries, best, n_relations), spreads, best, tried)


def fit_weights(queries: ValidationQueries, level: Level, n_relations: int) -> Floats:
    """The weights `[direction relation scorer]` of a level."""
    n = queries.scores.shape[1]
    weights = np.zeros((len(SIDES), n_relations, n))
    for side in range(len(SIDES)):
        of_side = queries if level == "all" else queries.part(queries.side == side)
        common = _fit(of_side, np.ones(n) / n, 0.0) if len(of_side.gold) else np.ones(n) / n
        weights[side] = common
        if level == "relation":
            for relation in np.unique(of_side.relation).tolist():
                of_relation = of_side.part(of_side.relation == relation)
                weights[side, relation] = _fit(of_relation, common, PULL)
    return weights


def _fit(queries: ValidationQueries, start: Floats, pull: float) -> Floats:
    """The weights of the least cross entropy, `pull` questions' worth of squares from `start`."""
    rows, n = np.arange(len(queries.gold)), len(queries.gold)
    finite = np.where(np.isfinite(queries.scores), queries.scores, 0.0)
    blocked = ~np.isfinite(queries.scores[:, 0])
    right = queries.scores[rows, :, queries.gold]

    def loss(weights: Floats) -> tuple[float, Floats]:
        mixed = np.einsum("qsc,s->qc", finite, weights)
        mixed[blocked] = -np.inf
        top = mixed.max(1, keepdims=True)
        chances = np.exp(mixed - top)
        total = chances.sum(1, keepdims=True)
        value = (top + np.log(total))[:, 0] - right @ weights
        expected = np.einsum("qsc,qc->qs", finite, chances / total)
        gap = weights - start
        gradient = (expected - right).sum(0) + 2 * pull * gap
        return float(value.sum() + pull * gap @ gap) / n, gradient / n

    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start))
    return np.asarray(optimum.x)


def _validation_queries(
    scorers: Sequence[HasScores], rows: NDArray[np.int64], filter: Filter, seed: int
) -> tuple[ValidationQueries, Floats]:
    most = max(50, N_SCORES // (filter.n_entities * len(scorers)))
    if len(rows) > most:
        sample = generator(seed, "mix").choice(len(rows), most, replace=False)
        rows = rows[np.sort(sample)]
    parts, spreads = [], []
    for scorer in scorers:
        queries = questions_of(scorer, rows, filter=filter, seed=seed, most=len(rows))
        finite = np.isfinite(queries.scores)
        spreads.append(float(queries.scores[finite].std()) or 1.0)
        parts.append(np.where(finite, queries.scores / spreads[-1], -np.inf))
    side, relation = np.repeat(np.arange(len(SIDES)), len(rows)), np.tile(rows[:, 1], len(SIDES))
    return ValidationQueries(np.stack(parts, 1), queries.gold, side, relation), np.array(spreads)


def _mix(queries: ValidationQueries, weights: Floats) -> Floats:
    row_weights = weights[queries.side, queries.relation]
    finite = np.where(np.isfinite(queries.scores), queries.scores, 0.0)
    mixed = np.einsum("qsc,qs->qc", finite, row_weights)
    mixed[~np.isfinite(queries.scores[:, 0])] = -np.inf
    return np.asarray(mixed)


def _reciprocal(scores: Floats, gold: NDArray[np.int64]) -> Floats:
    """Ties count at their mean place."""
    right = scores[np.arange(len(gold)), gold][:, None]
    above, level = (scores > right).sum(1), (scores == right).sum(1)
    return np.asarray(1 / (above + (level + 1) / 2))


def _mrr(scores: Floats, gold: NDArray[np.int64]) -> float:
    return float(_reciprocal(scores, gold).mean())
