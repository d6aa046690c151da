"""Models prepared once in the user's cache: a folder is written whole or not at all.

`prepared.json` in it has the size, time and SHA-256 of every file. A file of `LARGE` bytes or more
whose size and time are as they were written is taken to be whole; every other file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from kept.cache_folder import REMEDY, cache_folder
from kg_loaders.disk.seals import sha256_of
from kg_loaders.disk.write_errors import write_errors
from kg_loaders.disk.writing import whole_folder, write_json
from kg_loaders.errors import WriteError

WAIT_SECONDS = 300.0
"""How long a process waits for another one that prepares the same model."""
LARGE = 1 << 26
LARGEST_SEAL = 1 << 20
SEAL = "prepared.json"


def prepared_folder(name: str, prepare: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache; where it is missing or damaged, `prepare` fills it.

    `prepare` gets an empty folder, which takes the place of whatever had the name when all is
    written. What it raises is raised, and `WriteError` where the cache cannot be written.
    """
    folder = cache_folder() / name
    if is_whole(folder):
        return folder
    try:
        _clear_way(folder)
        with (
            suppress(_PreparedElsewhere),
            whole_folder(
                folder, kind="folder", is_kind=Path.is_dir, force=True, wait=WAIT_SECONDS
            ) as part,
        ):
            if is_whole(folder):
                raise _PreparedElsewhere
            prepare(part)
            files = sorted(each for each in part.iterdir() if each.is_file())
            write_json(part / SEAL, {each.name: _facts(each) for each in files})
    except WriteError as error:
        if REMEDY in str(error):
            raise
        raise type(error)(f"{error} ({folder.parent} is kept's cache: {REMEDY})") from error
    return folder


class _PreparedElsewhere(Exception):
    """Another process prepared the same model while this one waited for it."""


def _clear_way(folder: Path) -> None:
    """Remove a file, a link to nothing or a pipe where a prepared folder goes."""
    with write_errors(folder):
        if os.path.lexists(folder) and not folder.is_dir():
            folder.unlink(missing_ok=True)


def is_whole(folder: Path) -> bool:
    """Return whether every file of a prepared folder is what was written."""
    seal = folder / SEAL
    try:
        if not seal.is_file() or seal.stat().st_size > LARGEST_SEAL:
            return False
        files = msgspec.json.decode(seal.read_bytes(), type=dict[str, dict[str, str | int]])
        checks = [_is_as_written(folder / name, facts) for name, facts in files.items()]
    except (
        msgspec.MsgspecError,
        ValueError,
        KeyError,
        OSError,
    ):  # also of names that no file can have
        return False
    return bool(checks) and all(checks)


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
