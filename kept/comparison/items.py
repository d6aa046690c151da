"""What is asked of an experiment: read once from the task's files, stored in runs' answers.

Axis legend: item (an asked example).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kept.comparison.strata import item_traits
from kept.datasets.example import clusters
from kept.datasets.formats import TASKS, TaskExample
from kept.errors import CheckpointError
from kept.finetuning.config import FinetuneConfig
from kept.finetuning.scoring.answers import Answer
from kept.finetuning.scoring.counts import item_counts
from kept.finetuning.scoring.official_scores import OFFICIAL
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class AskedItems:
    """The items of an asked set, the same for every run: `config` is that of the baseline.

    `graph` is the one that methods with true knowledge read.
    """

    asked: Sequence[TaskExample]
    train: Sequence[TaskExample]
    graph: KnowledgeGraph
    config: FinetuneConfig

    def counted(self, answers: Sequence[Answer], path: Path) -> list[Answer]:
        """The answers with group, counts and traits, and an answer to each item that was cut off.

        CheckpointError, naming their `path`, for an answer to what is not asked.
        """
        last = max((answer.index for answer in answers), default=-1)
        if last >= len(self.asked):
            raise CheckpointError(
                f"{path} answers item {last}, but {len(self.asked)} are asked; the data are not "
                "those of the run: remove its folder and run kept compare"
            )
        answered = {answer.index for answer in answers}
        cut_off = [
            Answer(i, example.linked.id, "", example.labels, (), is_cut_off=True)
            for i, example in enumerate(self.asked)
            if i not in answered
        ]
        rows = [*answers, *cut_off]
        own = self._own_counts(answers)
        official = self._official_counts(rows)
        return [
            dataclasses.replace(
                row,
                group=self._groups[row.index],
                traits=self._traits[row.index],
                counts=({} if row.is_cut_off else own[place])
                | ({} if official is None else {"official": official[place]}),
            )
            for place, row in enumerate(rows)
        ]

    def _own_counts(self, answers: Sequence[Answer]) -> list[dict[str, list[float]]]:
        config = self.config
        by_metric = item_counts(
            [a.predicted for a in answers],
            [a.gold for a in answers],
            problem_type=TASKS[config.task].problem_type,
            no_relation=config.no_relation,
        )
        return [
            {metric: counts[place].tolist() for metric, counts in by_metric.items()}
            for place in range(len(answers))
        ]

    def _official_counts(self, rows: Sequence[Answer]) -> list[list[float]] | None:
        score = OFFICIAL.get(self.config.format)
        if score is None:
            return None
        asked = [self.asked[row.index] for row in rows]
        found = score.parts([row.predicted for row in rows], asked, self.train)
        return [counts.tolist() for counts in found]

    @cached_property
    def _groups(self) -> list[str]:
        return clusters(self.asked)

    @cached_property
    def _traits(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(t) for t in item_traits(self.asked, self.train, self.graph)]
