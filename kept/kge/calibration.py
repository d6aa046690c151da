"""From scores to confidences: a temperature and an isotonic curve, fitted on validation.

Temperature: Guo et al. 2017 (ICML), section 4.2. Isotonic curve: Zadrozny and Elkan 2002 (KDD).
A confidence is the chance that an answer is the one that is missing, *given that exactly one is*:
answers that the graph knows already do not compete, and whether anything is missing is not asked.

Axis legend: question, candidate, listed (the best candidates of a question).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from entity_linking.calibration.isotonic import isotonic_knots
from entity_linking.calibration.reliability import reliability
from kept.errors import EvaluationError
from kept.evaluation.ranking import SLOTS, Direction, Filter, HasScores, Triples
from kept.randomness import generator

Floats = NDArray[np.float64]
N_LISTED = 10
MAX_QUESTIONS = 500
"""Triples that are asked in each direction, sampled where there are more."""
THRESHOLDS = tuple(round(0.1 * i, 1) for i in range(1, 10))
LEAST, MOST = 1e-3, 1e3
"""Temperatures stay between the spread of the scores times these."""


@dataclass(frozen=True)
class ThresholdCount:
    """Of validation questions whose best answer had a confidence of at least `threshold`."""

    threshold: float
    n_answered: int
    n_right: int


@dataclass(frozen=True)
class Calibration:
    """softmax(score / `temperature`), then the curve through `knots` (probability, share right).

    `error_before` and `error_after` are expected calibration errors of the best answer, without
    and with the fit, and `kept` what a threshold keeps: both on questions that the fit did not see
    (two halves, each judged by the other's fit). All numbers are of `n_questions`.
    """

    temperature: float
    knots: tuple[tuple[float, float], ...]
    n_questions: int
    accuracy: float
    error_before: float
    error_after: float
    kept: tuple[ThresholdCount, ...]

    def confidences(self, scores: Floats, competes: NDArray[np.bool_]) -> Floats:
        """Of each candidate of one question, 0 for those that do not compete, `[candidate]`."""
        rows = np.where(competes, scores, -np.inf)[None]
        chances = _softmax(rows, self.temperature)[0]
        return np.asarray(np.where(competes, _on_curve(chances, self.knots), 0.0))

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Calibration:
        """What `as_json` gave."""
        knots = tuple((float(x), float(y)) for x, y in values["knots"])
        kept = tuple(ThresholdCount(**one) for one in values["kept"])
        return cls(**{**values, "knots": knots, "kept": kept})

    def __str__(self) -> str:
        return (
            f"calibrated on {self.n_questions} validation questions, right in "
            f"{self.accuracy:.3f}: error of its confidence {self.error_after:.3f}, of the softmax "
            f"of plain scores {self.error_before:.3f} (on questions that the fit did not see)"
        )

    def kept_at(self, threshold: float) -> ThresholdCount:
        """The row of `kept` at the nearest threshold not above the given one, else the first."""
        below = [one for one in self.kept if one.threshold <= threshold + 1e-9]
        return below[-1] if below else self.kept[0]


@dataclass(frozen=True, eq=False)
class Questions:
    """Scores `[question candidate]` (minus infinity: does not compete), gold `[question]`."""

    scores: Floats
    gold: NDArray[np.int64]

    def part(self, rows: NDArray[np.bool_]) -> Questions:
        return Questions(self.scores[rows], self.gold[rows])


def questions_of(
    scorer: HasScores,
    triples: Triples,
    *,
    filter: Filter,
    seed: int,
    directions: Sequence[Direction] = ("head", "tail"),
    most: int = MAX_QUESTIONS,
) -> Questions:
    """Ask validation triples `[triple 3]`, at most `most` of them sampled, in each direction.

    Known answers other than the gold, and the question's own entity, do not compete.
    """
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    if len(rows) > most:
        sample = generator(seed, "calibration").choice(len(rows), most, replace=False)
        rows = rows[np.sort(sample)]
    scores, gold = [], []
    for direction in directions:
        with torch.no_grad():
            answer_scores = scorer.scores(direction, torch.from_numpy(rows)).double().cpu().numpy()
        right = rows[:, SLOTS[direction]]
        query_rows, answers = filter.known(direction, rows)
        query_ids = rows[:, 2 - SLOTS[direction]]
        values = answer_scores[np.arange(len(rows)), right]
        answer_scores[query_rows, answers] = -np.inf
        answer_scores[np.arange(len(rows)), query_ids] = -np.inf
        answer_scores[np.arange(len(rows)), right] = values
        scores.append(answer_scores)
        gold.append(right)
    return Questions(np.concatenate(scores), np.concatenate(gold))


def fit_calibration(questions: Questions) -> Calibration:
    """Fit temperature and curve on all questions; judge them on halves.

    Raises `EvaluationError` for fewer than two questions.
    """
    n = len(questions.gold)
    if n < 2:
        raise EvaluationError(f"{n} validation questions: a calibration needs two at least")
    halves = np.arange(n) % 2 == 0
    sure, right = np.zeros(n), np.zeros(n, np.bool_)
    for fitted, judged in ((halves, ~halves), (~halves, halves)):
        temperature, knots = _fit(questions.part(fitted))
        part = questions.part(judged)
        chances = _on_curve(_softmax(part.scores, temperature), knots)
        sure[judged] = chances.max(1)
        right[judged] = part.scores.argmax(1) == part.gold
    plain = _softmax(questions.scores, 1.0).max(1)
    temperature, knots = _fit(questions)
    kept = tuple(
        ThresholdCount(limit, int((sure >= limit).sum()), int((right & (sure >= limit)).sum()))
        for limit in THRESHOLDS
    )
    return Calibration(
        temperature,
        knots,
        n,
        float(right.mean()),
        reliability(plain, right).expected_error,
        reliability(sure, right).expected_error,
        kept,
    )


def _fit(questions: Questions) -> tuple[float, tuple[tuple[float, float], ...]]:
    """The temperature of the highest likelihood, and the curve of the listed candidates."""
    finite = questions.scores[np.isfinite(questions.scores)]
    spread = float(finite.std()) or 1.0
    rows = np.arange(len(questions.gold))

    def loss(exponent: float) -> float:
        chances = _softmax(questions.scores, float(np.exp(exponent)))
        return float(-np.log(np.maximum(chances[rows, questions.gold], 1e-300)).mean())

    bounds = (np.log(spread * LEAST), np.log(spread * MOST))
    temperature = float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))
    chances = _softmax(questions.scores, temperature)
    listed = np.argsort(-chances, axis=1, kind="stable")[:, :N_LISTED]
    sure = np.take_along_axis(chances, listed, 1).ravel()
    right = (listed == questions.gold[:, None]).ravel()
    return temperature, tuple(isotonic_knots(sure, right))


def _softmax(scores: Floats, temperature: float) -> Floats:
    shifted = (scores - scores.max(1, keepdims=True)) / temperature
    weights = np.exp(shifted)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def _on_curve(chances: Floats, knots: Sequence[tuple[float, float]]) -> Floats:
    points, values = zip(*knots, strict=True)
    return np.asarray(np.interp(chances, points, values))
