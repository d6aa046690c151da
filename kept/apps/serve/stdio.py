"""An MCP server over standard input and output, which ends in good order.

Standard output carries the protocol alone. A closed input, SIGTERM or Ctrl-C ends the server once
the calls that have begun are answered.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from mcp.server import MCPServer

MOST_BYTES = 4 << 20
"""Bytes of one message."""
POLL_SECONDS = 0.02
LAST_SECONDS = 0.2
"""How long the last answer has to go out."""


class StoppableInput(io.RawIOBase):
    """The bytes of a descriptor until it ends, or until `stop` and nothing is at work any more.

    A message of more than `MOST_BYTES` ends it too: what cannot be bounded is not read.
    """

    def __init__(self, descriptor: int, is_busy: Callable[[], bool], seconds: float) -> None:
        self._descriptor, self._is_busy, self._seconds = descriptor, is_busy, seconds
        self._wake, self._waker = os.pipe()
        self._n_pending = 0
        self.fault = ""

    def readable(self) -> bool:
        return True

    def stop(self, *_: Any) -> None:
        """End the input; may be called by a signal."""
        os.write(self._waker, b"x")

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes or for `stop`; 0 is the end."""
        ready, _, _ = select.select([self._descriptor, self._wake], [], [])
        if self._wake in ready:
            self._wait()
            return 0
        content = os.read(self._descriptor, len(buffer))
        buffer[: len(content)] = content
        end = content.rfind(b"\n")
        self._n_pending = len(content) - end - 1 if end >= 0 else self._n_pending + len(content)
        if self._n_pending > MOST_BYTES:
            self.fault = f"a message has more than {MOST_BYTES:,} bytes; the server ends"
            return 0
        return len(content)

    def close(self) -> None:
        """Close the pipe that wakes it; the descriptor stays open."""
        if not self.closed:
            os.close(self._wake)
            os.close(self._waker)
        super().close()

    def _wait(self) -> None:
        """Until the calls that have begun are answered, or have taken too long."""
        end = time.monotonic() + self._seconds
        while self._is_busy() and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        time.sleep(LAST_SECONDS)


@contextmanager
def output_for_protocol() -> Iterator[None]:
    """Send what is printed meanwhile to standard error, whoever prints it."""
    sys.stdout.flush()
    stdout_copy = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)


def run_stdio(
    server: MCPServer[Any],
    is_busy: Callable[[], bool],
    *,
    seconds: float,
    on_interrupt: Callable[[], None],
) -> str:
    """Serve until the input ends; return what was wrong with it, or "".

    `is_busy` says whether a call is being answered, for which the end waits up to `seconds`.
    `on_interrupt` is called for Ctrl-C.
    """
    source = StoppableInput(sys.stdin.fileno(), is_busy, seconds)

    def interrupt(*_: int | FrameType | None) -> None:
        on_interrupt()
        source.stop()

    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: source.stop}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    own_input = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BufferedReader(source), encoding="utf-8")
    try:
        server.run("stdio")
    finally:
        sys.stdin = own_input
        for number, handler in before.items():
            signal.signal(number, handler)
    return source.fault
