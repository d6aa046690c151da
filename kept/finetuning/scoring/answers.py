"""The answers of a run as JSON lines: what tables, tests and reports are made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kept.datasets.example import clusters
from kept.errors import CheckpointError
from kept.finetuning.run import FinetuneRun
from kept.finetuning.scoring.scores import Answers
from kg_loaders.disk.writing import write_text

ANSWERS = "predictions.jsonl"


@dataclass(frozen=True)
class Answer:
    """One item of a set: `index` counts the items of the set, those cut off with their text too.

    `group`: items of one are not independent. Where the file was written before marks around
    targets were left out of it, one text asked twice is two.
    """

    index: int
    id: str
    group: str
    gold: tuple[str, ...]
    predicted: tuple[str, ...]


def write_answers(path: Path, run: FinetuneRun, predictions: Mapping[str, Answers]) -> None:
    """One line an item: set, index, id, group, gold, predicted. The file appears when whole."""
    rows = []
    for name, answers in predictions.items():
        data = run.asked[name]
        groups = clusters(data.examples)
        for place, (example, answer) in enumerate(zip(data.examples, answers, strict=True)):
            row: dict[str, Any] = {
                "set": name, "index": int(data.asked[place]), "id": example.linked.id,
                "group": groups[place], "gold": example.labels, "predicted": answer,
            }  # fmt: skip
            rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_text(path, "".join(rows), force=True)


def read_answers(path: Path, name: str) -> list[Answer]:
    """The answers to the set called `name`; CheckpointError for a line that is none."""
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line:
            continue
        try:
            row = json.loads(line)
            answer = Answer(
                row["index"], row["id"], row["group"], tuple(row["gold"]), tuple(row["predicted"])
            )
            is_asked = row["set"] == name
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path}:{number} is no answer ({error!r}); rerun it") from error
        if is_asked:
            found.append(answer)
    return found
