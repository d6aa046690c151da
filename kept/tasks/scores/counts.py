"""The counts of an answer by metric: scores are functions of their sums.

Axis legend: item (an example), count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kept.evaluation.correlation import CORRELATIONS
from kept.evaluation.tagging import span_counts
from kept.heads.model import REGRESSION, SPAN, TAGGING
from kept.tasks.scores.exact_match import exact_match, token_f1

Floats = NDArray[np.float64]
Answers = Sequence[tuple[str, ...]]
"""Labels of every item: one, any number, or one per word."""


def item_counts(
    predicted: Answers, gold: Answers, *, problem_type: str, no_relation: str | None
) -> dict[str, Floats]:
    """By metric `[item count]`, for all tasks alike.

    `accuracy` and `micro`: right, found, to find. For accuracy each item (a word, in tagging) finds
    and wants one; for micro F1 labels are counted but for `no_relation`, in tagging spans. Of a
    regression the parts of each correlation; of answers in words, exact match and F1 of the words.

    >>> found = item_counts([("a",)], [("b",)], problem_type="single", no_relation="a")
    >>> {name: counts.tolist() for name, counts in found.items()}
    {'accuracy': [[0.0, 1.0, 1.0]], 'micro': [[0.0, 0.0, 1.0]]}
    """
    pairs = list(zip(predicted, gold, strict=True))
    if problem_type == REGRESSION:
        ours, theirs = ([float(labels[0]) for labels in side] for side in (predicted, gold))
        return {name: parts(ours, theirs) for name, (parts, _) in CORRELATIONS.items()}
    exact: list[tuple[float, int, int]]
    micro: Sequence[tuple[float, int, int]]
    if problem_type == TAGGING:
        exact = [(sum(a == b for a, b in zip(p, g, strict=True)), len(g), len(g)) for p, g in pairs]
        micro = span_counts(predicted, gold)
    elif problem_type == SPAN:
        exact = [(exact_match("".join(p), g), 1, 1) for p, g in pairs]
        micro = [(token_f1("".join(p), g), 1, 1) for p, g in pairs]
    else:
        exact = [(int(set(p) == set(g)), 1, 1) for p, g in pairs]
        micro = [_of_labels({*p} - {no_relation}, {*g} - {no_relation}) for p, g in pairs]
    counts = {"accuracy": exact, "micro": micro}
    return {name: np.array(rows, np.float64).reshape(-1, 3) for name, rows in counts.items()}


def _of_labels(ours: set[str], gold: set[str]) -> tuple[int, int, int]:
    return len(ours & gold), len(ours), len(gold)
