"""Scores of classifiers, as pure functions of predictions and gold labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kept.batches import IGNORE


@dataclass(frozen=True)
class Scores:
    """Precision, recall and F1; `n` is the number of samples."""

    precision: float
    recall: float
    f1: float
    n: int


@dataclass(frozen=True)
class TypingScores:
    """Scores of label sets (Ling and Weld 2012, AAAI, section "Evaluation").

    `micro` pools labels ("loose micro"); `macro` averages precision and recall over samples, where
    an empty prediction has precision 0, and takes F1 of the averages ("loose macro"); `exact` is
    the share of samples whose label set is exactly right ("strict").
    """

    micro: Scores
    macro: Scores
    exact: float


@dataclass(frozen=True)
class LooseScores:
    """Micro scores over labels, macro scores over samples, and the share of exact label sets."""

    micro: Scores
    macro: Scores
    exact: float


def _scores(n_correct: float, n_predicted: float, n_gold: float, n: int) -> Scores:
    precision = n_correct / n_predicted if n_predicted else 0.0
    recall = n_correct / n_gold if n_gold else 0.0
    total = precision + recall
    return Scores(precision, recall, 2 * precision * recall / total if total else 0.0, n)


def _pair(predicted: ArrayLike, gold: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    p, g = np.asarray(predicted, np.int64), np.asarray(gold, np.int64)
    if p.shape != g.shape:
        raise ValueError(f"predictions have shape {p.shape}, gold labels {g.shape}")
    return p, g


def macro_scores(predicted: ArrayLike, gold: ArrayLike) -> Scores:
    """Means over the classes that occur in `predicted` or `gold`; an empty ratio counts as 0.

    >>> macro_scores([0, 0, 1], [0, 1, 1]).recall
    0.75
    """
    p, g = _pair(predicted, gold)
    classes = np.union1d(p, g)
    if not len(classes):
        return Scores(0.0, 0.0, 0.0, 0)
    each = [
        _scores(((p == c) & (g == c)).sum(), (p == c).sum(), (g == c).sum(), len(g))
        for c in classes
    ]
    precision, recall, f1 = np.mean([(s.precision, s.recall, s.f1) for s in each], axis=0)
    return Scores(float(precision), float(recall), float(f1), len(g))


def micro_scores(
    predicted: ArrayLike, gold: ArrayLike, *, no_relation: int | None, empty_precision: float = 0.0
) -> Scores:
    """Micro scores over samples; `no_relation` (required; None = no such class) is not a
    prediction.

    `empty_precision`: without any prediction; 1 in TACRED's own scorer.

    >>> micro_scores([0, 1, 1], [1, 1, 0], no_relation=0).precision
    0.5
    """
    p, g = _pair(predicted, gold)
    is_predicted = np.ones_like(p, bool) if no_relation is None else p != no_relation
    is_gold = np.ones_like(g, bool) if no_relation is None else g != no_relation
    if not is_predicted.any():
        return Scores(empty_precision, 0.0, 0.0, len(g))
    return _scores(
        float((is_predicted & (p == g)).sum()),
        float(is_predicted.sum()),
        float(is_gold.sum()),
        len(g),
    )


def typing_scores(
    logits: ArrayLike, gold: ArrayLike, *, threshold: float, at_least_one: bool = False
) -> TypingScores:
    """Multi-label scores; a label is predicted when its logit is above `threshold` (0 in CoLAKE).

    `logits`, `gold` (0/1): `[sample class]`. `at_least_one` predicts the labels of the highest
    logit, too, all of them if there are several (ERNIE's on FIGER).
    """
    scores = np.asarray(logits, np.float64)
    above = scores > threshold
    if at_least_one and scores.size:
        above |= scores == scores.max(axis=1, keepdims=True)
    predicted, correct = _pair(above, gold)
    both = predicted & correct
    micro = _scores(float(both.sum()), float(predicted.sum()), float(correct.sum()), len(correct))
    n_both, n_predicted, n_gold = (part.sum(axis=1) for part in (both, predicted, correct))
    precision = (n_both / np.maximum(n_predicted, 1)).mean() if len(correct) else 0.0
    recall = (n_both / np.maximum(n_gold, 1)).mean() if len(correct) else 0.0
    total = float(precision + recall)
    f1 = float(2 * precision * recall) / total if total else 0.0
    macro = Scores(float(precision), float(recall), f1, len(correct))
    exact = float((predicted == correct).all(axis=1).mean()) if len(correct) else 0.0
    return TypingScores(micro, macro, exact)


def loose_scores(
    logits: ArrayLike, gold: ArrayLike, *, threshold: float, macro_over: Literal["asked", "all"]
) -> LooseScores:
    """`typing_scores` with the loose macro scores of entity typing (Ling and Weld 2012).

    Precision and recall are means over samples. "asked": over those with a predicted (for recall, a
    gold) label; "all": over all samples, a sample without one counting 0, as K-Adapter's released
    code does (it lowers both). `logits`, `gold` (0/1): `[sample class]`.
    """
    typing = typing_scores(logits, gold, threshold=threshold)
    predicted, correct = _pair(np.asarray(logits) > threshold, gold)
    both = (predicted & correct).sum(axis=1)
    means = []
    for counts in (predicted.sum(axis=1), correct.sum(axis=1)):
        has_labels = counts > 0
        n = len(counts) if macro_over == "all" else int(has_labels.sum())
        means.append(float((both[has_labels] / counts[has_labels]).sum()) / n if n else 0.0)
    total = sum(means)
    f1 = 2 * means[0] * means[1] / total if total else 0.0
    return LooseScores(typing.micro, Scores(means[0], means[1], f1, len(correct)), typing.exact)


def masked_accuracy(logits: ArrayLike, labels: ArrayLike, *, ignore: int = IGNORE) -> float:
    """Share of right argmaxes where `labels` is not `ignore`; 0 when nothing is labelled."""
    best, gold = _pair(np.asarray(logits).argmax(axis=-1), labels)
    is_labelled = gold != ignore
    return float((best[is_labelled] == gold[is_labelled]).mean()) if is_labelled.any() else 0.0
