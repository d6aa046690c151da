"""Triple classification: thresholds are fitted on one split and applied to another.

Thresholds by relation: Socher et al., NeurIPS 2013. Hard negatives: Safavi & Koutra, EMNLP 2020.

Axis legend: triple, relation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entity_linking.scoring.intervals import Interval, ratio_interval
from kept.errors import EvaluationError
from kept.evaluation.ranking import Direction, HasScores
from kept.evaluation.sampled_ranking import NOT_SHARED, Sharing

MIN_TRIPLES = 10


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A triple is true where its score is above its relation's threshold.

    Shapes: `by_relation float [relation]`, `is_own bool [relation]` (False: the global one).
    """

    by_relation: NDArray[np.float64]
    is_own: NDArray[np.bool_]
    overall: float
    min_triples: int

    @property
    def rule(self) -> str:
        """The conditions to report beside a score."""
        n = int(self.is_own.sum())
        return (
            f"thresholds by relation, the most accurate cut on validation ({n} of "
            f"{len(self.is_own)} relations); where validation has fewer than {self.min_triples} "
            "triples of a relation, or one class only, the cut over all relations"
        )

    def predict(
        self, scores: NDArray[np.floating], relations: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """True or not, `[triple]`, for scores and relation ids `[triple]`."""
        return np.asarray(scores > self.by_relation[relations])


@dataclass(frozen=True)
class TripleClassification:
    """Accuracy and F1 of the class "true", with bootstrap intervals over triples."""

    accuracy: Interval
    f1: Interval
    n_true: int
    n_false: int
    rule: str

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy}, F1 {self.f1}; {self.n_true} true and {self.n_false} false "
            f"triples; {self.rule}"
        )


def best_threshold(scores: NDArray[np.floating], labels: NDArray[np.bool_]) -> float:
    """Return the most accurate cut of `scores [triple]` for `labels bool [triple]`.

    In the middle between two neighbouring scores, or infinite beyond the ends; of equally good
    cuts the lowest. EvaluationError: no triple, or a score is NaN.

    >>> best_threshold(np.array([1.0, 2.0, 4.0]), np.array([False, False, True]))
    3.0
    """
    if not len(scores) or np.isnan(scores).any():
        raise EvaluationError(f"a threshold needs scores: {len(scores)} given, or one is NaN")
    values, inverse = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    true = np.bincount(inverse, labels, minlength=len(values))
    false = np.bincount(inverse, ~labels, minlength=len(values))
    # cutting below value k: the false ones under it and the true ones from it on are right
    right = np.append(0, np.cumsum(false)) + np.append(np.cumsum(true[::-1])[::-1], 0)
    cuts = np.concatenate([[-np.inf], (values[1:] + values[:-1]) / 2, [np.inf]])
    return float(cuts[right.argmax()])


def fit_thresholds(
    scores: NDArray[np.floating],
    relations: NDArray[np.integer],
    labels: NDArray[np.bool_],
    *,
    n_relations: int,
    min_triples: int = MIN_TRIPLES,
) -> Thresholds:
    """Fit on validation; all of `[triple]`.

    A relation with fewer than `min_triples` triples, or of one class only, takes the threshold of
    all triples together.
    """
    overall = best_threshold(scores, labels)
    by_relation = np.full(n_relations, overall)
    is_own = np.zeros(n_relations, np.bool_)
    for relation in np.unique(relations).tolist():
        in_relation = relations == relation
        if in_relation.sum() >= min_triples and len(np.unique(labels[in_relation])) == 2:
            by_relation[relation] = best_threshold(scores[in_relation], labels[in_relation])
            is_own[relation] = True
    return Thresholds(by_relation, is_own, overall, min_triples)


def score_classification(
    predicted: NDArray[np.bool_],
    labels: NDArray[np.bool_],
    *,
    rule: str,
    generator: np.random.Generator,
) -> TripleClassification:
    """Compare `predicted bool [triple]` with `labels bool [triple]`; EvaluationError: fewer than 2.

    F1 is 2 tp / (predicted + true), resampled as a ratio.
    """
    if len(predicted) != len(labels) or len(labels) < 2:
        raise EvaluationError(f"{len(predicted)} predictions for {len(labels)} triples")
    one = np.ones(len(labels))
    both = predicted.astype(np.float64) + labels
    return TripleClassification(
        accuracy=ratio_interval(predicted == labels, one, generator=generator),
        f1=ratio_interval(2.0 * (predicted & labels), both, generator=generator),
        n_true=int(labels.sum()),
        n_false=int((~labels).sum()),
        rule=rule,
    )


def mean_of_directions(scorer: HasScores) -> Callable[[Tensor], Tensor]:
    """The score of a triple: the mean of its scores as an answer for its head and for its tail.

    For scorers that rank candidates; of one whose score has no direction, its own score.
    """

    def score(triples: Tensor) -> Tensor:
        rows = torch.arange(len(triples))
        sides: tuple[tuple[Direction, int], ...] = (("head", 0), ("tail", 2))
        scores = [scorer.scores(side, triples)[rows, triples[:, slot]] for side, slot in sides]
        return torch.stack(scores).mean(0)

    return score


def classify_triples(
    score: Callable[[Tensor], Tensor],
    true: Mapping[str, NDArray[np.integer]],
    false: Mapping[str, NDArray[np.integer]],
    *,
    n_relations: int,
    generator: np.random.Generator,
    min_triples: int = MIN_TRIPLES,
    batch_size: int = 1024,
    together: Sharing = NOT_SHARED,
) -> TripleClassification:
    """Fit thresholds on "valid" of `true` and `false` `[triple 3]`, judge their "test".

    `score` maps triples int `[batch 3]` to scores `[batch]`, as `Scorer.score_triples` does.
    Several processes share the batches out, and all have the result.
    """
    parts = {}
    for split in ("valid", "test"):
        triples = np.concatenate([true[split], false[split]]).astype(np.int64)
        labels = np.arange(len(triples)) < len(true[split])
        starts = range(0, len(triples), batch_size)
        block_numbers = together.share(len(starts))
        with torch.no_grad():
            blocks = [
                score(torch.from_numpy(triples[start : start + batch_size])).double().cpu().numpy()
                for start in starts[block_numbers.start : block_numbers.stop]
            ]
        scores = np.concatenate(
            [each for blocks_of_rank in together.from_each(blocks) for each in blocks_of_rank]
        )
        parts[split] = scores, triples[:, 1], labels
    thresholds = fit_thresholds(*parts["valid"], n_relations=n_relations, min_triples=min_triples)
    scores, relations, labels = parts["test"]
    return score_classification(
        thresholds.predict(scores, relations), labels, rule=thresholds.rule, generator=generator
    )
