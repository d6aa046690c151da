"""The answers of a run as JSON lines: what tables, tests and reports are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kept.errors import CheckpointError
from kept.tasks.datasets.example import clusters
from kept.tasks.scores.counts import Answers
from kept.training.finetuning.run import FinetuneRun
from kg_loaders.disk.writing import write_bytes

ANSWERS = "predictions.jsonl"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of a set: `index` counts the items of the set, those cut off with their text too.

    `group`: items of one are not independent. `counts`: by metric, what a score is summed from;
    `traits`: what slices are made from (`kept.lab.comparison`). Both are None of an answer that no
    comparison stored, or one before 0.2; then `group`, too, may separate two targets of one text.
    An item that `is_cut_off` was not read: nothing is predicted, only an official score counts it.
    """

    set: str
    index: int
    id: str
    group: str
    gold: tuple[str, ...]
    predicted: tuple[str, ...]
    is_cut_off: bool = msgspec.field(default=False, name="cut_off")
    counts: dict[str, list[float]] | None = None
    traits: dict[str, Any] | None = None


def answers_of(run: FinetuneRun, predictions: Mapping[str, Answers]) -> list[Answer]:
    """The answers of a finished run, set by set, without what a comparison adds."""
    answers = []
    for name, predicted in predictions.items():
        data = run.evaluation[name]
        rows = zip(
            data.indices.tolist(), data.examples, clusters(data.examples), predicted, strict=True
        )
        answers += [
            Answer(name, index, example.linked.id, group, example.labels, tuple(answer))
            for index, example, group, answer in rows
        ]
    return answers


def write_answers(path: Path, answers: Iterable[Answer]) -> None:
    """Write one line per item; the file appears when whole."""
    write_bytes(path, b"".join(msgspec.json.encode(a) + b"\n" for a in answers), force=True)


def read_answers(path: Path, name: str) -> list[Answer]:
    """The answers to the split called `name`; CheckpointError for a faulty line."""
    answers = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line:
            continue
        try:
            answer = msgspec.json.decode(line, type=Answer)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"{path}:{number} is not an answer ({error!r}); rerun it"
            ) from error
        if answer.set == name:
            answers.append(answer)
    return answers
