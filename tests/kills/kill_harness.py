"""Runs a command in a child that kills itself at its Nth file-system event.

An event is whatever Python says to its audit hooks, and `fsync`, about a path below the trial's
folder: opening for writing, making, renaming, linking, removing. `Death.torn` cuts what was being
written last to half before it dies, as a write in native code may be cut that no hook sees.

Children are forked from a process that has imported everything (`forked.warm`), so that a trial
costs no more than the command does.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.forked import end_with_stacks, lead_a_group, warm

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = (
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate",
    "os.chmod", "os.utime",
)  # fmt: skip

SECONDS = 300.0
"""What a child may take; the slowest takes a tenth of it."""


@dataclass(frozen=True)
class Death:
    """Before event `number`, counted from 0; `torn`: with half of what was written last.

    By SIGINT a child does not die: it is interrupted, as by Ctrl-C.
    """

    number: int
    torn: bool = False
    by: signal.Signals = signal.SIGKILL

    def __str__(self) -> str:
        return f"{self.by.name} at event {self.number}{', torn' if self.torn else ''}"


@dataclass(frozen=True)
class Ended:
    """How a child ended: `code` is None for one that was killed; `events` in their order."""

    code: int | None
    events: tuple[str, ...]
    output: str


class _Watch:
    """The hook of one child; it can never be taken off, and dies with its process."""

    def __init__(self, root: Path, death: Death | None, events: int) -> None:
        self._root, self._death, self._events = f"{root}/", death, events
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
        os.write(self._events, f"{name} {path.removeprefix(self._root)}\n".encode())
        if self._death is not None and self._n == self._death.number:
            if self._death.torn and os.path.isfile(self._last):
                size = os.path.getsize(self._last)
                os.truncate(self._last, (min(self._size, size) + size) // 2)
            self._busy = self._death.by is signal.SIGKILL
            number, self._n = self._n, self._n + 1
            signal.raise_signal(self._death.by)
            self._n = number
        self._n += 1
        if is_write:
            whole = name == "fsync"  # it may have been written by native code alone
            self._last = path
            self._size = os.path.getsize(path) if not whole and os.path.isfile(path) else 0
        self._busy = False


def run_child(work: Callable[[], int], root: Path, death: Death | None = None) -> Ended:
    """Do `work`, which can be pickled, below `root` in a child that dies there if `death` says so.

    The child is forked from a process of its own that has started no threads: from one where torch
    has computed with several, a child waits for ever for those that a fork does not take along.
    """
    children = warm()
    events_from, events_to = children.Pipe(duplex=False)
    shown_from, shown_to = children.Pipe(duplex=False)
    child = children.Process(target=_child, args=(work, root, death, events_to, shown_to))
    child.start()
    events_to.close()
    shown_to.close()
    assert child.pid is not None
    late = threading.Timer(SECONDS, end_with_stacks, [child.pid])
    late.start()
    with ThreadPoolExecutor(2) as readers:
        events, output = readers.map(_read_all, (events_from, shown_from))
    child.join()
    if not late.is_alive():
        raise TimeoutError(f"still at work after {SECONDS} seconds: {output}")
    late.cancel()
    code = None if child.exitcode == -signal.SIGKILL else child.exitcode
    return Ended(code, tuple(events.splitlines()), output)


def _child(
    work: Callable[[], int], root: Path, death: Death | None, events: Connection, output: Connection
) -> None:
    gc.freeze()  # memory that is shared with the other children until somebody searches it
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    lead_a_group()
    code = 99
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        _Watch(root, death, events.fileno()).start()
        code = work()
    except BaseException:  # noqa: BLE001  # told, and the child ends with 99
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _read_all(source: Connection) -> str:
    with os.fdopen(os.dup(source.fileno()), encoding="utf-8", errors="replace") as stream:
        return stream.read()


def deaths(events: tuple[str, ...], stride: int) -> list[Death]:
    """Every `stride`th event, and a torn one after each of those that writes."""
    points = []
    for number in range(0, len(events), stride):
        points.append(Death(number))
        wrote = number > 0 and events[number - 1].startswith(("open ", "fsync "))
        if wrote:
            points.append(Death(number, torn=True))
    return points
