"""Predictions of runs for the items of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from entity_linking.errors import LinkingError
from entity_linking.mentions import Linker
from kept.apps.explorer.readers import Reader
from kept.apps.serve.errors import NotServedError
from kept.apps.serve.requests import PredictItem
from kept.errors import ConfigError
from kept.suggestions import no_such
from kept.tasks.datasets.unlabelled import (
    RowParser,
    UnlabelledLine,
    alternatives,
    form_of,
    has_columns,
)
from kept.training.finetuning.bulk import answer_fields
from kept.training.finetuning.predictor import BY_NAMES, Predictor
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport

USES = {"text_b": "second"}
"""Fields of an item whose column is for something of another name."""
PredictRequestItem = tuple[str | None, PredictItem]
"""A run by name, or None for the only one, and an item for it."""


@dataclass(eq=False)
class Predictions:
    """Runs by name, over one graph; `linker` links for all but fits that took another linker."""

    graph: KnowledgeGraph
    linker: Linker
    runs: Mapping[str, Predictor]
    _linkers: dict[str, Linker] = field(default_factory=dict)

    @classmethod
    def of(
        cls, graph: KnowledgeGraph, linker: Linker, readers: Mapping[str, Reader]
    ) -> Predictions:
        """Return the predictions of those of `readers` that are runs."""
        runs = {key: r.predictor for key, r in readers.items() if r.predictor is not None}
        return cls(graph, linker, runs)

    def predict(self, requests: Sequence[PredictRequestItem]) -> list[dict[str, Any]]:
        """Return the prediction for each item; raises `ConfigError` that numbers a faulty one."""
        answers: dict[int, dict[str, Any]] = {}
        names = [self._name(run) for run, _ in requests]
        for name in dict.fromkeys(names):
            places = [i for i, each in enumerate(names) if each == name]
            predictor = self.runs[name]
            lines = [
                _line(predictor, i, requests[i][1], f"item {i}: " if len(requests) > 1 else "")
                for i in places
            ]
            examples = [line.example for line in lines]
            rows = predictor.predictions(examples, self.graph, self._linker(name, predictor))
            kind = predictor.model.question().problem_type
            for position, line, row in zip(places, lines, rows, strict=True):
                answers[position] = {"run": name} | answer_fields(row, kind, line.fields)
        return [answers[i] for i in range(len(requests))]

    def _name(self, run: str | None) -> str:
        if not self.runs:
            raise NotServedError("there is no run here: start kept serve with --run")
        if run is None:
            if len(self.runs) > 1:
                raise ConfigError(f"several runs are served; name one: {', '.join(self.runs)}")
            return next(iter(self.runs))
        if run not in self.runs:
            raise no_such("run", run, self.runs)
        return run

    def _linker(self, name: str, predictor: Predictor) -> Linker:
        if predictor.link_method == BY_NAMES:
            return self.linker
        if name not in self._linkers:
            self._linkers[name] = predictor.linker(self.graph)
        return self._linkers[name]


def _line(predictor: Predictor, number: int, item: PredictItem, position: str) -> UnlabelledLine:
    """The item as a line; `ConfigError` says what is wrong with it, after its `position`."""
    row, task = item.model_dump(exclude_none=True), predictor.task
    columns = {USES.get(name, name): name for name in row}
    if not has_columns(columns, task):
        raise ConfigError(f"{position}a run of {task} needs {alternatives(form_of(task))}")
    parser = RowParser(columns, form_of(task), "", DamageReport())
    try:
        return parser.parse(number, row)
    except (ValueError, LinkingError) as error:
        raise ConfigError(f"{position}{error}") from error
