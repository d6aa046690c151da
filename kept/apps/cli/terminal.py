"""What commands print: characters that a terminal would obey are shown, not sent.

A label, a text or a file's name may hold them. Commands print with `echo`, or with a console of
`kept.apps.cli.console`, and with nothing else (`tests/kept/apps/cli/test_terminal.py`).
"""

from __future__ import annotations

import re
import shlex
import sys
from contextvars import ContextVar

import typer

from kept.training.processes.launch import rank_and_size

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls but line feed and tab, marks that turn the direction of text, halves of pairs."""


CALL: ContextVar[str] = ContextVar("CALL", default="")
"""The call of Python that runs a command; empty on the command line."""


def command_line() -> str:
    """Return the command as its user wrote it, or the call of Python in its place."""
    return CALL.get() or shlex.join(["kept", *sys.argv[1:]])


def visible(text: str) -> str:
    r"""`text` with every character that a terminal obeys as `\uXXXX`, as JSON writes it.

    >>> visible("a\x1b[2Jb")
    'a\\u001b[2Jb'
    """
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def echo(message: object, *, err: bool = False, fg: str | None = None, nl: bool = True) -> None:
    """Print a line: on standard error with `err`, in the colour `fg` where there are colours.

    Of several processes the first prints; others say which they are, and errors alone.
    """
    rank = rank_and_size().rank
    if rank and not err:
        return
    if rank:
        message = f"process {rank}: {message}"
    typer.secho(visible(str(message)), err=err, fg=fg, nl=nl)
