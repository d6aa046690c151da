"""Suggestions for mistyped names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from kept.errors import ConfigError, HostError
from kg_loaders.disk.kinds import require_file_or_folder
from kg_loaders.spelling import did_you_mean, near

_MEMBER = re.compile(r"(.*?\.zip)::.+", re.IGNORECASE | re.DOTALL)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def no_such(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error that `name` is none of the `known` things of a kind: near names, then all.

    >>> print(no_such("control", "shufled", ["off", "shuffled"]))
    there is no control 'shufled'; did you mean shuffled? There are off, shuffled
    """
    names = list(known)
    suggestion = did_you_mean(name, names)
    there = f"{' There' if suggestion else '; there'} are {', '.join(names)}"
    return ConfigError(f"there is no {kind} {name!r}{suggestion}{there}")


def is_there(path: str | Path) -> bool:
    """Whether a file or a folder of that name can be seen; a name that none can have is not."""
    return os.path.exists(path)


def not_there(path: str | Path) -> str:
    """Say of a path that does not exist where it ends, and which names are near.

    >>> not_there("nothing/here")
    'nothing/here does not exist: there is no nothing here'
    """
    if not str(path):
        return "an empty path names no file and no folder"
    path = Path(path)
    folder = Path(path.anchor)
    for part in path.parts[1 if path.anchor else 0 :]:
        if not is_there(folder / part):
            break
        folder = folder / part
    where = "here" if folder == Path() else f"in {folder}"
    if not folder.is_dir():
        return f"{path} does not exist: {folder} is not a folder"
    names = [str(folder / name) for name in near(part, _names_in(folder))]
    hint = f"; did you mean {' or '.join(names)}?" if names else ""
    reason = "" if path == folder / part else f": there is no {part} {where}"
    return f"{path} does not exist{reason}{hint}"


def require_there(path: Path, remedy: str = "") -> None:
    """Raise `ConfigError` that names near ones, and the remedy, unless `path` exists.

    Of a member of an archive, `x.zip::MEMBER`, the archive has to exist.
    """
    if not is_there(path) and (member := _MEMBER.fullmatch(str(path))):
        path = Path(member[1])
    if not is_there(path):
        raise ConfigError("; ".join(filter(None, [not_there(path), remedy])))


def require_local(name: str | Path) -> None:
    """Raise `HostError` for a model's name that can only be a folder, and is none.

    A hub is asked for NAME and OWNER/NAME alone; `runs/mine` is a folder where `runs` is one.
    A pipe, a socket and a device are a `SourceError`.
    """
    path = str(name)
    require_file_or_folder(path)
    first = path.partition("/")[0]
    of_a_hub = _HUB_NAME.fullmatch(path) and not (first != path and os.path.isdir(first))
    if not is_there(path) and not of_a_hub:
        raise HostError(f"{not_there(path)}; a hub's models are called NAME or OWNER/NAME")


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # a folder that may not be listed has no names to offer
        return []
