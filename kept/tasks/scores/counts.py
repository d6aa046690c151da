"""The counts of an answer by metric: scores are functions of their sums.

Axis legend: item (an example), count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kept.tasks.kinds import task_kind

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

    >>> single = "single_label_classification"
    >>> found = item_counts([("a",)], [("b",)], problem_type=single, no_relation="a")
    >>> {name: counts.tolist() for name, counts in found.items()}
    {'accuracy': [[0.0, 1.0, 1.0]], 'micro': [[0.0, 0.0, 1.0]]}
    """
    counts = task_kind(problem_type).counts(predicted, gold, no_relation)
    arrays = {name: np.asarray(rows, np.float64) for name, rows in counts.items()}
    return {name: rows if rows.size else rows.reshape(0, 3) for name, rows in arrays.items()}
