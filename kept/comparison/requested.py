"""The rows requested of an experiment, so that a report knows which runs are missing.

`asked.json` in a folder of runs maps the names of experiments to their rows, each as the last
command that named it requested it. A run that no command requested is not missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kept.controls.conditions import Knowledge
from kept.errors import CheckpointError
from kg_loaders.disk.writing import WAIT_SECONDS, whole_file

REQUESTED = "asked.json"


@dataclass(frozen=True)
class RequestedRow:
    """Requested controls and number of seeds of a row; `left_out`: why a kind is no control."""

    controls: tuple[Knowledge, ...]
    seeds: int
    left_out: dict[Knowledge, str] = field(default_factory=dict)


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
