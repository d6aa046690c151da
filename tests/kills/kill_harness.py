"""Runs a command in a child that kills itself at its Nth file-system event.

An event is whatever Python says to its audit hooks, and `fsync`, about a path below the trial's
folder: opening for writing, making, renaming, linking, removing. `Death.torn` cuts what was being
written last to half before it dies, as a write in native code may be cut that no hook sees.

Children are forked from a process that has imported everything, so that a trial costs no more than
the command does.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = (
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.utime",
)  # fmt: skip


@dataclass(frozen=True)
class Death:
    """Before event `number`, counted from 0; `torn`: with half of what was written last."""

    number: int
    torn: bool = False

    def __str__(self) -> str:
        return f"event {self.number}{', torn' if self.torn else ''}"


@dataclass(frozen=True)
class Ended:
    """How a child ended: `code` is None for one that was killed; `events` in their order."""

    code: int | None
    events: tuple[str, ...]
    output: str


class _Watch:
    """The hook of one child; it can never be taken off, and dies with its process."""

    def __init__(self, root: Path, death: Death | None, told: int) -> None:
        self._root, self._death, self._told = f"{root}/", death, told
        self._n, self._last, self._size = 0, "", 0
        self._busy = False

    def start(self) -> None:
        sys.addaudithook(self._audit)
        fsync = os.fsync

        def watched(descriptor: int) -> None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            self._event("fsync", path, is_write=os.path.isfile(path))
            fsync(descriptor)

        os.fsync = watched

    def _audit(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self._busy:
            return
        if name == "open":
            path, _, flags = arguments
            if isinstance(path, (str, bytes)) and (flags or 0) & WRITING:
                self._event(name, os.fsdecode(path), is_write=True)
        elif name in CHANGES:
            within_a_folder = name in ("os.remove", "os.rmdir") and arguments[1] != -1
            path = os.fsdecode(arguments[0])
            self._event(name, f"{self._root}{path}" if within_a_folder else path)

    def _event(self, name: str, path: str, *, is_write: bool = False) -> None:
        path = os.path.abspath(path)
        if not path.startswith(self._root):
            return
        self._busy = True
        os.write(self._told, f"{name} {path.removeprefix(self._root)}\n".encode())
        if self._death is not None and self._n == self._death.number:
            if self._death.torn and os.path.isfile(self._last):
                size = os.path.getsize(self._last)
                os.truncate(self._last, (min(self._size, size) + size) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        self._n += 1
        if is_write:
            whole = name == "fsync"  # it may have been written by native code alone
            self._last = path
            self._size = os.path.getsize(path) if not whole and os.path.isfile(path) else 0
        self._busy = False


def run_child(work: Callable[[], int], root: Path, death: Death | None = None) -> Ended:
    """Fork, do `work` below `root`, and die there if `death` says so."""
    told, tell = os.pipe()
    shown, show = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(show, 1)
        os.dup2(show, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # not what pytest captures
        code = 99
        try:
            _Watch(root, death, tell).start()
            code = work()
        except BaseException:  # noqa: BLE001  # told, and the child ends with 99
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for descriptor in (tell, show):
        os.close(descriptor)
    with ThreadPoolExecutor(2) as readers:
        events, output = readers.map(_read_all, (told, shown))
    _, status = os.waitpid(child, 0)
    code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return Ended(code, tuple(events.splitlines()), output)


def _read_all(descriptor: int) -> str:
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def deaths(events: tuple[str, ...], stride: int) -> list[Death]:
    """Every `stride`th event, and a torn one after each of those that writes."""
    found = []
    for number in range(0, len(events), stride):
        found.append(Death(number))
        wrote = number > 0 and events[number - 1].startswith(("open ", "fsync "))
        if wrote:
            found.append(Death(number, torn=True))
    return found
