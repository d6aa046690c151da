"""From the answers of runs to counts that a score is a function of, whatever the metric.

Axis legend: item, cluster (items of one group), count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kept.errors import EvaluationError
from kept.evaluation.paired import Value, by_cluster, f1_value
from kept.evaluation.tagging import span_counts
from kept.heads.model import TAGGING
from kept.tasks.answers import ANSWERS, Answer, read_answers
from kept.tasks.assembly import read_sets
from kept.tasks.experiment import RunRecord
from kept.tasks.experiment_runs import ExperimentRuns, RunKey
from kept.tasks.finetuning_examples import TASKS, TaskExample
from kept.tasks.method_runs import BASELINE
from kept.tasks.official_scores import OFFICIAL

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judge:
    """Reads an experiment's metric from answers."""

    runs: ExperimentRuns

    @property
    def value(self) -> Value:
        """From summed counts to the score."""
        experiment = self.runs.experiment
        if experiment.metric != "official":
            return f1_value
        values = OFFICIAL[experiment.task["format"]].values
        return lambda sums: next(iter(values(sums).values()))

    def require_same_items(self, records: Iterable[RunRecord]) -> None:
        """Raise EvaluationError unless all runs answered the same items: differences are paired."""
        first, items = None, set[int]()
        for record in records:
            found = {answer.index for answer in self._answers(record)}
            if first is None:
                first, items = record, found
            elif found != items:
                raise EvaluationError(
                    f"run {record.run} ({record.method}) answered {len(found)} items, run "
                    f"{first.run} ({first.method}) {len(items)}, {len(found ^ items)} of them only "
                    "one of both; give every row the same host and graph.max_words"
                )

    def _answers(self, record: RunRecord) -> list[Answer]:
        path = self.runs.folder / record.run / ANSWERS
        return read_answers(path, self.runs.experiment.asked)

    def counts(self, record: RunRecord) -> Floats:
        """Sums `[cluster count]` of a run's answers."""
        experiment, answers = self.runs.experiment, self._answers(record)
        counts = (
            self._official(answers)
            if experiment.metric == "official"
            else _right_found_wanted(experiment.metric, experiment.task, answers)
        )
        return by_cluster(counts, [answer.group for answer in answers])

    def score(self, scores: Mapping[str, Any]) -> float:
        """The metric's estimate among a set's scores."""
        metric = self.runs.experiment.metric
        return float(scores[metric]["f1" if metric == "micro" else "estimate"])

    def _official(self, answers: list[Answer]) -> Floats:
        asked = self._sets[self.runs.experiment.asked]
        return OFFICIAL[self.runs.experiment.task["format"]].parts(
            [answer.predicted for answer in answers],
            [asked[answer.index] for answer in answers],
            self._sets["train"],
        )

    @cached_property
    def _sets(self) -> dict[str, list[TaskExample]]:
        return read_sets(self.runs.config(RunKey(BASELINE, "off", 0)), self.runs.data.graph)[0]


def _right_found_wanted(metric: str, task: Mapping[str, Any], answers: list[Answer]) -> Floats:
    """`[item 3]`; for accuracy each item (a word, in tagging) finds and wants one."""
    ours, gold = [a.predicted for a in answers], [a.gold for a in answers]
    is_tagging = TASKS[task["task"]].problem_type == TAGGING
    if metric == "micro" and is_tagging:
        rows = [tuple(row) for row in span_counts(ours, gold)]
    elif metric == "micro":
        rows = [_of_sets(answer, task.get("no_relation")) for answer in answers]
    elif is_tagging:
        pairs = list(zip(ours, gold, strict=True))
        rows = [(sum(map(str.__eq__, p, g)), len(g), len(g)) for p, g in pairs]
    else:
        rows = [(set(p) == set(g), 1, 1) for p, g in zip(ours, gold, strict=True)]
    return np.array(rows, np.float64).reshape(-1, 3)


def _of_sets(answer: Answer, nothing: str | None) -> tuple[int, int, int]:
    ours, gold = ({*labels} - {nothing} for labels in (answer.predicted, answer.gold))
    return len(ours & gold), len(ours), len(gold)
