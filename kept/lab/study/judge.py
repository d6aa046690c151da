"""From the stored answers of runs to the sums that any metric is computed from.

Axis legend: item, cluster (items of one group), count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kept.errors import CheckpointError, EvaluationError
from kept.evaluation.paired import Value, by_cluster
from kept.lab.study.run import Study
from kept.lab.study.slices import ItemTraits, Mask, slices
from kept.lab.study.store import RunRecord
from kept.training.finetuning.answers import ANSWERS, Answer, read_answers

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judge:
    """Reads a study's metric from the answers of its runs."""

    study: Study[Any]
    _read: dict[str, list[Answer]] = field(default_factory=dict, init=False, repr=False)
    _regrouped: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def value(self) -> Value:
        """From summed counts to the score."""
        return self.study.plan.value

    def require_same_items(self, records: Iterable[RunRecord]) -> None:
        """Raise EvaluationError unless all runs answered the same items: differences are paired."""
        first, items = None, set[int]()
        for record in records:
            indices = {answer.index for answer in self.answers(record) if not answer.is_cut_off}
            if first is None:
                first, items = record, indices
            elif indices != items:
                raise EvaluationError(
                    f"run {record.run} ({record.method}) answered {len(indices)} items, run "
                    f"{first.run} ({first.method}) {len(items)}, {len(indices ^ items)} of them "
                    "only one of both; give every row the same host and graph.max_words"
                )

    def answers(self, record: RunRecord) -> list[Answer]:
        """A run's answers on the evaluation split, each with its counts; read once.

        Counts of a run stored without them (before 0.2) are made from the task's files.
        """
        if record.run not in self._read:
            plan = self.study.plan
            path = self.study.folder / record.run / ANSWERS
            rows = read_answers(path, plan.asked)
            complete = [row for row in rows if not row.is_cut_off]
            if not complete or any(plan.metric not in (row.counts or ()) for row in complete):
                rows = self.study.trial.counted(complete, path)
                if _differ([a.group for a in complete], [a.group for a in rows[: len(complete)]]):
                    self._regrouped.add(record.run)
            if {row.index for row in rows} != set(range(len(rows))):
                raise CheckpointError(
                    f"{path} is not whole; remove its folder and run kept compare"
                )
            self._read[record.run] = rows
        return self._read[record.run]

    def n_regrouped(self, records: Iterable[RunRecord]) -> int:
        """How many runs were stored with other groups than the data have.

        Before marks around targets were left out of the groups, one text with two targets counted
        as two. What is computed here takes the groups of the data.
        """
        return sum(record.run in self._regrouped for record in records if self.answers(record))

    def counts(self, record: RunRecord, mask: Mask | None = None) -> Floats:
        """Sums `[cluster count]` of a run's answers; for official scores of the whole split.

        `mask`: the items of the split that count; a cluster without one has zeros.
        """
        metric, rows = self.study.plan.metric, self.answers(record)
        counted = [(a, a.counts[metric]) for a in rows if a.counts and metric in a.counts]
        counts = np.array(
            [item_counts for _, item_counts in counted] or np.zeros((0, 3)), np.float64
        )
        if mask is not None:
            counts = counts * mask[[answer.index for answer, _ in counted], None]
        return by_cluster(counts, [answer.group for answer, _ in counted])

    def answered(self, record: RunRecord, mask: Mask) -> tuple[int, int]:
        """How many of the items of `mask` a run answered, and how many groups these are."""
        rows = [a for a in self.answers(record) if mask[a.index] and not a.is_cut_off]
        return len(rows), len({answer.group for answer in rows})

    def score(self, counts: Floats) -> float:
        """The metric of a run's `counts`."""
        return float(self.value(counts.sum(0)[None])[0])

    def majority(self, record: RunRecord) -> float | None:
        """The majority's score on the run's evaluation split; it answers cut-off items, too.

        None where no majority is scored beside a run, but in a row of its own.
        """
        metric = self.study.plan.metric
        baseline = record.scores[self.study.plan.asked].get("baseline")
        key = "f1" if metric == "micro" else "estimate"
        return None if baseline is None else float(baseline[metric][key])

    def slices(self, record: RunRecord) -> dict[str, dict[str, Mask]]:
        """Slices of the items by what the graph holds of them; see `kept.lab.study.slices`."""
        rows = sorted(self.answers(record), key=lambda answer: answer.index)
        try:
            return slices(msgspec.convert([row.traits for row in rows], list[ItemTraits]))
        except msgspec.ValidationError as error:
            raise CheckpointError(
                f"{self.study.folder / record.run / ANSWERS} does not say what the graph holds of "
                f"its items ({error}); remove its folder and run kept compare"
            ) from error


def _differ(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two lists of keys put the items together in different ways."""
    return not len({*zip(one, other, strict=True)}) == len({*one}) == len({*other})
