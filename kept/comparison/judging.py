"""From the answers of runs to counts that a score is a function of, whatever the metric.

Axis legend: item, cluster (items of one group), count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kept.comparison.experiment import RunRecord
from kept.comparison.runs import ExperimentRuns, RunKey
from kept.comparison.strata import Mask, item_traits, slices
from kept.datasets.example import clusters
from kept.datasets.formats import TASKS, TaskExample
from kept.errors import CheckpointError, EvaluationError
from kept.evaluation.correlation import CORRELATIONS
from kept.evaluation.paired import Value, by_cluster, f1_value
from kept.evaluation.tagging import span_counts
from kept.finetuning.assembly import read_sets
from kept.finetuning.scoring.answers import ANSWERS, Answer, read_answers
from kept.finetuning.scoring.official_scores import OFFICIAL
from kept.finetuning.scoring.scores import Answers, Baseline
from kept.heads.model import TAGGING
from kept.methods import BASELINE

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Judge:
    """Reads an experiment's metric from answers."""

    runs: ExperimentRuns

    @property
    def value(self) -> Value:
        """From summed counts to the score."""
        experiment = self.runs.experiment
        if experiment.metric in CORRELATIONS:
            return CORRELATIONS[experiment.metric][1]
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
        answers = read_answers(path, self.runs.experiment.asked)
        last = max((answer.index for answer in answers), default=-1)
        if last >= len(self._asked):
            raise CheckpointError(
                f"{path} answers item {last}, but {len(self._asked)} are asked; the data are not "
                "those of the run: remove its folder and run kept compare"
            )
        return answers

    def counts(self, record: RunRecord, mask: Mask | None = None) -> Floats:
        """Sums `[cluster count]` of a run's answers; in official scores of all that was asked.

        `mask`: of the asked items, those that count; a cluster without one has zeros.
        """
        items, counts = self._item_counts(record)
        if mask is not None:
            counts = counts * mask[items, None]
        return by_cluster(counts, [self._clusters[item] for item in items])

    def _item_counts(self, record: RunRecord) -> tuple[list[int], Floats]:
        experiment, answers = self.runs.experiment, self._answers(record)
        items = [answer.index for answer in answers]
        if experiment.metric == "official":
            cut_off = sorted(set(range(len(self._asked))) - set(items))
            predicted = [answer.predicted for answer in answers] + [()] * len(cut_off)
            items += cut_off
            counts = self._official(predicted, items)
        elif experiment.metric in CORRELATIONS:
            ours = [float(answer.predicted[0]) for answer in answers]
            gold = [float(answer.gold[0]) for answer in answers]
            counts = CORRELATIONS[experiment.metric][0](ours, gold)
        else:
            counts = _right_found_wanted(experiment.metric, experiment.task, answers)
        return items, counts

    def answered(self, record: RunRecord, mask: Mask) -> tuple[int, int]:
        """How many of the items of `mask` a run answered, and how many groups these are."""
        items = [answer.index for answer in self._answers(record) if mask[answer.index]]
        return len(items), len({self._clusters[item] for item in items})

    def score(self, counts: Floats) -> float:
        """The metric of a run's `counts`."""
        return float(self.value(counts.sum(0)[None])[0])

    def majority(self, record: RunRecord) -> float:
        """The majority's score, on what the run was asked; it answers what is cut off, too."""
        metric, task = self.runs.experiment.metric, self.runs.experiment.task
        if metric != "official":
            found = record.scores[self.runs.experiment.asked]["baseline"][metric]
            return float(found["f1" if metric == "micro" else "estimate"])
        kind = TASKS[task["task"]].problem_type
        answers = Baseline.of(self._sets["train"], kind).answers(self._asked, kind)
        return self.score(self._official(answers, range(len(self._asked))))

    def n_regrouped(self, records: Iterable[RunRecord]) -> int:
        """How many runs were stored with other groups than the data have.

        Before marks around targets were left out of the groups, one text asked twice was two. What
        is computed here takes the groups of the data.
        """
        return sum(
            _differ([a.group for a in answers], [self._clusters[a.index] for a in answers])
            for answers in map(self._answers, records)
        )

    def _official(self, answers: Answers, items: Sequence[int]) -> Floats:
        return OFFICIAL[self.runs.experiment.task["format"]].parts(
            answers, [self._asked[item] for item in items], self._sets["train"]
        )

    @property
    def _asked(self) -> list[TaskExample]:
        return self._sets[self.runs.experiment.asked]

    @cached_property
    def slices(self) -> dict[str, dict[str, Mask]]:
        """Of the asked items by what the graph holds of them; see `kept.comparison.strata`."""
        return slices(item_traits(self._asked, self._sets["train"], self.runs.data.graph))

    @cached_property
    def _clusters(self) -> list[str]:
        return clusters(self._asked)

    @cached_property
    def _sets(self) -> dict[str, list[TaskExample]]:
        return read_sets(self.runs.of(RunKey(BASELINE, "off", 0)).config, self.runs.data.graph)[0]


def _differ(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two lists of keys put the items together in different ways."""
    return not len({*zip(one, other, strict=True)}) == len({*one}) == len({*other})


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
