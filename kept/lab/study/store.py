"""Where outcomes lie, each written whole or not at all, by one process at a time.

A folder of runs holds

    runs.jsonl     one `RunRecord` per line, appended when a run is finished
    HASH/          answers, log and curves of a run
    pretrained/    models of continued pre-training, shared by runs
    graphs/        the graph without evaluated pairs

Studies without answers to items store one JSON file an outcome, under its address: `stored_once`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from kept.errors import CheckpointError
from kept.inputs.controls.conditions import Knowledge
from kept.training.finetuning.answers import ANSWERS
from kg_loaders.disk.write_errors import write_errors
from kg_loaders.disk.writing import WAIT_SECONDS, claim, sync, whole_file, write_bytes

RECORDS = "runs.jsonl"
RUN_FILES = (ANSWERS, "log.jsonl", "curves.png")
FAULT = "holds no outcome of this study"
REMEDY = "remove it, and the same command makes it again"
T = TypeVar("T")


@dataclass(frozen=True)
class RunRecord:
    """A finished run, one line of `runs.jsonl`; `run` is the hash of `settings`.

    `scores`: by set, what `kept.tasks.scores.scores.scores` gives, with counts. `costs`:
    parameters added and trained, optimiser steps, continued pre-training and its texts,
    seconds, milliseconds a sentence, mentions linked. The folder `run` beside the file holds
    `predictions.jsonl` (see `kept.training.finetuning.answers`), and the log and curves of each
    stage. `primary`: the contrast that the experiment named when the run was made.
    """

    run: str
    experiment: str
    method: str
    knowledge: Knowledge
    seed: int
    scores: dict[str, Any]
    costs: dict[str, Any]
    settings: dict[str, Any]
    primary: dict[str, Any] | None = None


# ---- one line a run ------------------------------------------------------------------------------
def read_records(folder: Path) -> dict[str, RunRecord]:
    """Return the finished runs of a folder by their hashes; CheckpointError for a faulty line.

    A last line without its end was cut by a kill, and is not counted.
    """
    path = folder / RECORDS
    if not path.exists():
        return {}
    records = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = msgspec.json.decode(line, type=RunRecord)
        except msgspec.DecodeError as error:
            raise CheckpointError(
                f"{path}:{number} is no run ({error}); remove the line"
            ) from error
        records[record.run] = record
    return records


def append_record(folder: Path, record: RunRecord) -> RunRecord:
    """Append a finished run to the records of a folder, and return it."""
    with claim(folder / RECORDS, wait=WAIT_SECONDS) as path, write_errors(path):
        with path.open("a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)  # drop a line cut by a kill
            file.write(msgspec.json.encode(record) + b"\n")
        sync(path)
    return record


def remove_other_files(folder: Path) -> None:
    """Remove all but the answers, log and curves from the folder of a finished run or training."""
    for path in sorted(folder.glob("*")):
        if path.name not in RUN_FILES:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


# ---- one file an outcome -------------------------------------------------------------------------
def read_stored(path: Path, form: type[T], fault: str = FAULT, remedy: str = REMEDY) -> T | None:
    """Return the value that a JSON file holds, None where there is no file.

    CheckpointError for a faulty one: `fault` says what it is not, `remedy` what to do.
    """
    return _decoded(path, form, fault, remedy) if path.is_file() else None


def _decoded(path: Path, form: type[T], fault: str, remedy: str) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=form)
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(f"{path} {fault} ({error}); {remedy}") from error


def stored_once(
    path: Path,
    form: type[T],
    make: Callable[[], T],
    *,
    fault: str = FAULT,
    remedy: str = REMEDY,
) -> T:
    """Return the value stored at `path`, made and stored where it is not: by one process alone.

    It is returned as it is read from the file, so that the first call returns what later ones do.
    """
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with claim(path.with_suffix(".running")):
            if not path.is_file():
                write_bytes(path, _json(make()))
    return _decoded(path, form, fault, remedy)


def update_stored(path: Path, change: Callable[[], Any]) -> None:
    """Replace a JSON file by what `change` returns; others that change it wait for this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, force=True, wait=WAIT_SECONDS) as part:
        part.write_bytes(_json(change()) + b"\n")


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_number), indent=1)


def _number(value: Any) -> Any:
    """Return a number of numpy as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is not stored as JSON")
