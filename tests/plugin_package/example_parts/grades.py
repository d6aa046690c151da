"""A task: classes that have an order, such as stars, where a near class is nearly right.

The loss is cross entropy plus the distance that the model expects; the answer is the median class.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kept.batches import IGNORE
from kept.tasks.datasets.formats import Format, read_tsv
from kept.tasks.kinds import Prediction, ScoredItem, SingleLabel, Task, TaskKind


class Grades(TaskKind):
    """One of several classes, ordered by their names."""

    name = "grades"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        is_labelled = labels != IGNORE
        distances = (torch.arange(logits.shape[-1]) - labels[is_labelled, None]).abs()
        expected = (logits[is_labelled].softmax(-1) * distances).sum(-1).mean()
        return SingleLabel().loss(logits, labels) + expected

    def answer(self, shares: Tensor, classes: Sequence[str], threshold: float) -> str:
        return classes[_median(shares)]

    def predict(self, item: ScoredItem) -> Prediction:
        shares = self.shares(item.logits[0].double())
        middle = _median(shares)
        return Prediction((item.classes[middle],), (float(shares[middle]),))


def _median(shares: Tensor) -> int:
    """The first class up to which half of the probability lies."""
    return min(int((shares.cumsum(-1) < 0.5).sum()), len(shares) - 1)


TASK = Task("grades", "pooled", own_kind=Grades())
FORMAT = Format("grades", read_tsv)
