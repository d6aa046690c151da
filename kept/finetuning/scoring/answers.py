"""The answers of a run as JSON lines: what tables, tests and reports are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kept.datasets.example import clusters
from kept.errors import CheckpointError
from kept.finetuning.run import FinetuneRun
from kept.finetuning.scoring.counts import Answers
from kg_loaders.disk.writing import write_bytes

ANSWERS = "predictions.jsonl"


@dataclass(frozen=True)
class Answer:
    """One item of a set: `index` counts the items of the set, those cut off with their text too.

    `group`: items of one are not independent. `counts`: by metric, what a score is summed from;
    `traits`: what slices are made from (`kept.comparison`). Both are None of an answer that no
    comparison stored, or one before 0.2; then `group`, too, may tell one text asked twice apart.
    An item that `is_cut_off` was not read: nothing is predicted, only an official score counts it.
    """

    index: int
    id: str
    group: str
    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    is_cut_off: bool = False
    counts: Mapping[str, Sequence[float]] | None = None
    traits: Mapping[str, Any] | None = None


def answers_of(run: FinetuneRun, predictions: Mapping[str, Answers]) -> dict[str, list[Answer]]:
    """The answers of a finished run by set, without what a comparison adds."""
    found = {}
    for name, predicted in predictions.items():
        data = run.asked[name]
        rows = zip(
            data.asked.tolist(), data.examples, clusters(data.examples), predicted, strict=True
        )
        found[name] = [
            Answer(index, example.linked.id, group, example.labels, tuple(answer))
            for index, example, group, answer in rows
        ]
    return found


class _Line(msgspec.Struct, omit_defaults=True):
    """An answer as it is written."""

    set: str
    index: int
    id: str
    group: str
    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    cut_off: bool = False
    counts: dict[str, list[float]] | None = None
    traits: dict[str, Any] | None = None


def write_answers(path: Path, answers: Mapping[str, Sequence[Answer]]) -> None:
    """One line an item: set, index, id, group, gold, predicted, and what else there is of it.

    The file appears when whole.
    """
    lines = [
        _Line(
            name, a.index, a.id, a.group, a.gold, a.predicted, a.is_cut_off,
            None if a.counts is None else {key: list(own) for key, own in a.counts.items()},
            None if a.traits is None else dict(a.traits),
        )
        for name, rows in answers.items()
        for a in rows
    ]  # fmt: skip
    write_bytes(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines), force=True)


def read_answers(path: Path, name: str) -> list[Answer]:
    """The answers to the set called `name`; CheckpointError for a line that is none."""
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line:
            continue
        try:
            row = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}:{number} is no answer ({error!r}); rerun it") from error
        if row.set == name:
            given = (getattr(row, field) for field in _Line.__struct_fields__[1:])
            found.append(Answer(*given))
    return found
