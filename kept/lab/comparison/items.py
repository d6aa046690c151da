"""The items of an evaluation split: read once from the task's files, stored in runs' answers.

Axis legend: item (an example of the evaluation split).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kept.errors import CheckpointError
from kept.graphs.coverage import has_fact
from kept.inputs.flat_texts import linked_entities
from kept.lab.study.slices import ItemTraits
from kept.tasks.datasets.example import clusters
from kept.tasks.datasets.formats import TASKS, TaskExample
from kept.tasks.scores.counts import item_counts
from kept.tasks.scores.official_scores import OFFICIAL
from kept.training.finetuning.answers import Answer
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import exclusion
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class EvaluationItems:
    """The items of the set called `name`, the same for every run: `config` is that of the baseline.

    `graph` is the one that methods with true knowledge read.
    """

    name: str
    examples: Sequence[TaskExample]
    train: Sequence[TaskExample]
    graph: KnowledgeGraph
    config: FinetuneConfig

    def counted(self, answers: Sequence[Answer], path: Path) -> list[Answer]:
        """The answers with group, counts and traits, and an answer to each item that was cut off.

        CheckpointError, naming their `path`, for an answer to an item outside the split.
        """
        last = max((answer.index for answer in answers), default=-1)
        if last >= len(self.examples):
            raise CheckpointError(
                f"{path} answers item {last}, but the split has {len(self.examples)}; the data "
                "are not those of the run: remove its folder and run kept compare"
            )
        answered = {answer.index for answer in answers}
        rows = list(answers) + [
            Answer(self.name, i, example.linked.id, "", example.labels, (), is_cut_off=True)
            for i, example in enumerate(self.examples)
            if i not in answered
        ]
        by_metric = item_counts(
            [answer.predicted for answer in answers],
            [answer.gold for answer in answers],
            problem_type=TASKS[self.config.task].problem_type,
            no_relation=self.config.no_relation,
        )
        counts: list[dict[str, list[float]]] = [{} for _ in rows]
        if (official := OFFICIAL.get(self.config.format)) is not None:
            examples = [self.examples[row.index] for row in rows]
            predicted = [row.predicted for row in rows]
            by_metric |= {"official": official.parts(predicted, examples, self.train)}
        for metric, of_metric in by_metric.items():
            for item_values, values in zip(
                counts, of_metric.tolist(), strict=False
            ):  # cut off: official alone
                item_values[metric] = values
        return [
            msgspec.structs.replace(
                row,
                group=self._groups[row.index],
                traits=self._traits[row.index],
                counts=item_values,
            )
            for row, item_values in zip(rows, counts, strict=True)
        ]

    @cached_property
    def _groups(self) -> list[str]:
        return clusters(self.examples)

    @cached_property
    def _traits(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(t) for t in item_traits(self.examples, self.train, self.graph)]


def item_traits(
    examples: Sequence[TaskExample], train: Sequence[TaskExample], graph: KnowledgeGraph
) -> list[ItemTraits]:
    """Of each item of `examples`; `graph` is the one that methods with true knowledge read."""
    into = np.diff(graph.in_offsets)
    degrees = np.diff(graph.out_offsets) + into
    training_entities = set(linked_entities([e.linked for e in train], graph)[0].tolist())
    entities, offsets = linked_entities([e.linked for e in examples], graph)
    traits = []
    for i, example in enumerate(examples):
        entity_ids = [int(e) for e in entities[offsets[i] : offsets[i + 1]] if e >= 0]
        hidden = exclusion(example, graph)
        mentions = example.targets or [link.mention for link in example.linked.links]
        texts = [example.linked.text[m.start : m.end] for m in mentions]
        traits.append(
            ItemTraits(
                has_entity=bool(entity_ids),
                has_fact=any(has_fact(graph, e, degrees, hidden) for e in entity_ids),
                degree=int(max((degrees[e] for e in entity_ids), default=0)),
                popularity=int(max((into[e] for e in entity_ids), default=0)),
                is_seen=training_entities.issuperset(entity_ids),
                n_words=max((len(text.split()) for text in texts), default=0),
            )
        )
    return traits
