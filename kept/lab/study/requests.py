"""What commands requested of a folder of runs, so that a report knows which runs are missing.

`asked.json` maps the names of experiments to their rows, each as the last command that named it
requested it. A run that no command requested is not missing. `request.json` maps the names of task
files to the options with which the last command read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kept.inputs.controls.conditions import Knowledge
from kept.lab.study.store import read_stored, update_stored

REQUESTED, REQUEST = "asked.json", "request.json"
REMEDY = "remove it and run kept compare"


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
    update_stored(folder / REQUEST, lambda: _read_requests(folder) | {task: request})


def read_request(folder: Path, task: str) -> Request:
    """Return the options of the last `kept compare` of a task file; none in a folder without."""
    return _read_requests(folder).get(task, Request())


def _read_requests(folder: Path) -> dict[str, Request]:
    form = dict[str, Request]
    return read_stored(folder / REQUEST, form, "holds no options", REMEDY) or {}


def store_requested(folder: Path, experiment: str, rows: Mapping[str, RequestedRow]) -> None:
    """Replace the requests for `rows`; other rows stay."""

    def change() -> dict[str, dict[str, RequestedRow]]:
        requested = _read_requested(folder)
        return requested | {experiment: requested.get(experiment, {}) | dict(rows)}

    update_stored(folder / REQUESTED, change)


def read_requested(folder: Path, experiment: str) -> dict[str, RequestedRow]:
    """Return the request for each row; CheckpointError for a faulty file."""
    return _read_requested(folder).get(experiment, {})


def _read_requested(folder: Path) -> dict[str, dict[str, RequestedRow]]:
    form = dict[str, dict[str, RequestedRow]]
    return read_stored(folder / REQUESTED, form, "does not say what was requested", REMEDY) or {}
