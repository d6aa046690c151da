"""The rows requested of an experiment, so that a report knows which runs are missing.

`asked.json` in a folder of runs maps the names of experiments to their rows, each as the last
command that named it requested it. A run that no command requested is not missing. `request.json`
maps the names of task files to the options with which the last command read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from kept.errors import CheckpointError
from kept.inputs.controls.conditions import Knowledge
from kg_loaders.disk.writing import WAIT_SECONDS, whole_file

REQUESTED, REQUEST = "asked.json", "request.json"


@dataclass(frozen=True)
class RequestedRow:
    """Requested controls and number of seeds of a row; `left_out`: why a kind is no control."""

    controls: tuple[Knowledge, ...]
    seeds: int
    left_out: dict[Knowledge, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """With which options `kept compare` read a task file; a report reads it with the same."""

    kg: str | None = None
    case: str | None = None
    data: str | None = None
    limit: int | None = None
    as_published: bool = False

    def __str__(self) -> str:
        named = {name.replace("_", "-"): value for name, value in asdict(self).items() if value}
        return " ".join(
            f"--{name}" if value is True else f"--{name} {value}" for name, value in named.items()
        )


def remember_request(folder: Path, task: str, request: Request) -> None:
    """Replace the options with which the task file `task` was read."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / REQUEST
    with whole_file(path, force=True, wait=WAIT_SECONDS) as part:
        requests = _read_requests(path) | {task: request}
        part.write_bytes(msgspec.json.format(msgspec.json.encode(requests), indent=1) + b"\n")


def read_request(folder: Path, task: str) -> Request:
    """Return the options of the last `kept compare` of a task file; none in a folder without."""
    return _read_requests(folder / REQUEST).get(task, Request())


def _read_requests(path: Path) -> dict[str, Request]:
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Request])
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"{path} holds no options ({error}); remove it and run kept compare"
        ) from error


def store_requested(folder: Path, experiment: str, rows: Mapping[str, RequestedRow]) -> None:
    """Replace the requests for `rows`; other rows stay."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / REQUESTED
    with whole_file(path, force=True, wait=WAIT_SECONDS) as part:
        requested = _read(path)
        requested[experiment] = requested.get(experiment, {}) | dict(rows)
        part.write_bytes(msgspec.json.format(msgspec.json.encode(requested), indent=1) + b"\n")


def read_requested(folder: Path, experiment: str) -> dict[str, RequestedRow]:
    """The request for each row; CheckpointError for a faulty file."""
    return _read(folder / REQUESTED).get(experiment, {})


def _read(path: Path) -> dict[str, dict[str, RequestedRow]]:
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, RequestedRow]])
    except msgspec.DecodeError as error:
        raise CheckpointError(
            f"{path} does not say what was requested ({error}); remove it and run kept compare"
        ) from error
