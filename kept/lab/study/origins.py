"""Outcomes that hold what they came from: their settings and their data, a fingerprint of each.

A file that came from others is refused, so that no table shows the numbers of another
configuration. Such a file is found by its name, as a row and a seed, not by an address.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kept.errors import CheckpointError
from kept.lab.study.addresses import fingerprint
from kg_loaders.disk.writing import write_json

Origin = Mapping[str, str]
"""`settings` and `data`; a reader that has no data at hand gives the settings alone."""
VALUES = "told"
"""The field of the values in a stored file."""


def fingerprint_of(*parts: object) -> str:
    """Return SHA-256 over JSON values, in order."""
    return fingerprint(parts)


def write_stored(path: Path, origin: Origin, values: object) -> None:
    """Write `values` with their origin."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"origin": dict(origin), VALUES: values}, force=True)


def read_stored(path: Path, origin: Origin) -> Any:
    """Return the values stored in `path`, None where there are none.

    Raises `CheckpointError` where they have another origin than `origin`, or none.
    """
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    origin_stored = content.get("origin", {}) if isinstance(content, dict) else {}
    other = [name for name, value in origin.items() if origin_stored.get(name) != value]
    if other:
        raise CheckpointError(
            f"{path} came of other {' and '.join(other)}; choose another folder (-o), or delete it "
            "with what was trained beside it, and run again"
        )
    return content[VALUES]


def stored_with(path: Path, origin: Origin, make: Callable[[], Any]) -> Any:
    """Return the values stored in `path`, made and stored where there are none."""
    values = read_stored(path, origin)
    if values is None:
        values = make()
        write_stored(path, origin, values)
    return values


def require_same_data(paths: Iterable[Path]) -> None:
    """Raise `CheckpointError` unless what is there of `paths` came from the same data."""
    there = [path for path in paths if path.exists()]
    data = [json.loads(path.read_text(encoding="utf-8"))["origin"]["data"] for path in there]
    for path, stored in zip(there, data, strict=True):
        if stored != data[0]:
            raise CheckpointError(
                f"{path} and {there[0]} came of different data; delete one and run it again"
            )
