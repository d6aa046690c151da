"""What lies at a path: an input is a file or a folder, never a pipe, a socket or a device.

A pipe ends once, a device perhaps never, and readers here open an input more than once.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kg_loaders.errors import SourceError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


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
