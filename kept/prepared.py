"""Models prepared once in the user's cache: a folder is written whole or not at all.

`prepared.json` in it has the size, time and SHA-256 of every file. A file of `LARGE` bytes or more
whose size and time are as they were written is taken to be whole; every other file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kg_loaders.disk.seals import sha256_of
from kg_loaders.disk.writing import whole_folder, write_json

WAIT_SECONDS = 300.0
"""How long a process waits for another one that prepares the same model."""
LARGE = 1 << 26
SEAL = "prepared.json"


def cache_folder() -> Path:
    """Return the folder of what kept prepares: `KEPT_CACHE`, else `kept` in the user's cache."""
    named = os.environ.get("KEPT_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kept"


def prepared_folder(name: str, prepare: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache; where it is missing or damaged, `prepare` fills it.

    `prepare` gets an empty folder, which takes its place when all is written. What it raises is
    raised, and so is the `OutputError` of a cache that cannot be written.
    """
    folder = cache_folder() / name
    if not is_whole(folder):
        with whole_folder(
            folder, kind="a prepared model", is_kind=_is_prepared, force=True, wait=WAIT_SECONDS
        ) as part:
            prepare(part)
            files = sorted(each for each in part.iterdir() if each.is_file())
            write_json(part / SEAL, {each.name: _facts(each) for each in files})
    return folder


def is_whole(folder: Path) -> bool:
    """Return whether every file of a prepared folder is what was written."""
    seal = folder / SEAL
    if not seal.is_file():
        return False
    try:
        files = msgspec.json.decode(seal.read_bytes(), type=dict[str, dict[str, Any]])
        return all(_is_as_written(folder / name, facts) for name, facts in files.items())
    except (msgspec.DecodeError, KeyError, OSError):
        return False


def _is_prepared(folder: Path) -> bool:
    return (folder / SEAL).is_file()


def _facts(file: Path) -> dict[str, Any]:
    status = file.stat()
    return {"size": status.st_size, "time": status.st_mtime_ns, "sha256": sha256_of(file)}


def _is_as_written(file: Path, facts: dict[str, Any]) -> bool:
    status = file.stat()
    if status.st_size != facts["size"]:
        return False
    if status.st_size >= LARGE and status.st_mtime_ns == facts["time"]:
        return True
    return bool(sha256_of(file) == facts["sha256"])
