"""What is stored knows what it came of: its settings and its data, a fingerprint of each.

A file that came of others is refused, so that no table shows the numbers of another configuration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kept.errors import CheckpointError
from kg_loaders.disk.writing import write_json

Origin = Mapping[str, str]
"""`settings` and `data`; a reader that has no data at hand gives the settings alone."""


def fingerprint(*parts: object) -> str:
    """SHA-256 over JSON values, in order."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def write_stored(path: Path, origin: Origin, values: object) -> None:
    """`values` with its origin."""
    write_json(path, {"origin": dict(origin), "told": values}, force=True)


def read_stored(path: Path, origin: Origin) -> Any:
    """The values stored in `path`, None where there are none.

    Raises `CheckpointError` where it has another origin than `origin`, or none.
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
    return content["told"]


def require_same_data(paths: Iterable[Path]) -> None:
    """Raise `CheckpointError` unless what is there of `paths` came of the same data."""
    there = [path for path in paths if path.exists()]
    data = [json.loads(path.read_text(encoding="utf-8"))["origin"]["data"] for path in there]
    for path, stored in zip(there, data, strict=True):
        if stored != data[0]:
            raise CheckpointError(
                f"{path} and {there[0]} came of different data; delete one and run it again"
            )
