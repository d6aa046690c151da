"""What lies at a path: an input is a file or a folder, never a pipe, a socket or a device.

A pipe ends once, a device perhaps never, and readers here open an input more than once.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from kg_loaders.errors import SourceError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_BEGINNING_OF_A_PATH = re.compile(r"(/|\.\.?/|~/)")
"""How a path begins, and no text in a language that is written without spaces."""
LONGEST_NAME = 255
"""Bytes of a name that file systems take."""


def file_or_text(argument: str, *, folders: bool = False) -> Path | None:
    """The file (or folder) that an argument FILE|TEXT names; None where it is text.

    Raises `SourceError` for a pipe, a socket and a device, and for what only a path can be.

    >>> file_or_text("Paris is old.") is None
    True
    """
    path = Path(argument)
    require_file_or_folder(argument)
    may_be_path = len(argument) <= LONGEST_NAME and "\0" not in argument
    if may_be_path and (path.is_file() or (folders and path.is_dir())):
        return path
    if may_be_path and argument.endswith("/") and path.is_dir():
        raise SourceError(f"{argument} is a folder; give a file or a text in its place")
    if " " not in argument and (path.suffix or _BEGINNING_OF_A_PATH.match(argument)):
        raise SourceError(f"{argument} is not a file; text with spaces is taken as text")
    return None


def odd_kind(path: str | os.PathLike[str]) -> str | None:
    """What lies at `path` if it is not a file and no folder; None also for nothing at all.

    >>> odd_kind("/dev/null")
    'a device'
    >>> odd_kind("/nowhere")
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # ValueError: a name that none can have, which is said elsewhere
        return None
    return _KINDS.get(stat.S_IFMT(mode))


def require_file_or_folder(path: str | os.PathLike[str]) -> None:
    """Raise `SourceError` for a pipe, a socket or a device at `path`."""
    kind = odd_kind(path)
    if kind is not None:
        raise SourceError(
            f"{Path(path)} is {kind}, but inputs are read more than once; write its output "
            f"to a file, and give that file"
        )
