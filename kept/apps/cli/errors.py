"""What a command that fails prints: one message, one exit code, no traceback.

docs/decisions/0005-one-command-line-error.md lists the codes.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any

import typer
from typer.core import TyperGroup

from kept.apps.cli.terminal import echo
from kept.suggestions import is_there, not_there

OURS = ("kept", "entity_linking", "kg_loaders")
"""Packages whose exceptions are errors of the user; asked by name, which loads none of them."""
FAILED, FAULT = 1, 70
FAULTY_LINE: Any = typer.BadParameter.__mro__[2]
"""What typer raises for a faulty command line."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as of any program."""
STOPPED = "stopped by Ctrl-C; run the same command again"
_INTERRUPTS: ContextVar[list[int] | None] = ContextVar("interrupts", default=None)
TYPERS = (typer.Exit, typer.Abort, FAULTY_LINE, BrokenPipeError)
"""Exceptions that end a command without being its error, such as a faulty command line."""
_NO_SPACE = "No space left"  # as Rust and C++ say it, without a number
_NO_MEMORY = re.compile("(can't|cannot|not) allocate( enough)? memory|out of memory|enough memory")
NO_SPACE = "no space left on the disk"
NO_MEMORY = (
    "there is not enough memory for this; take smaller sizes (of batches, widths, graphs), or a "
    "larger machine"
)
TOO_DEEP = "it is nested too deeply to be read; no file of kept is: give another, or flatten it"


class ErrorReportingGroup(TyperGroup):
    """The group of all commands: any exception is one message; with --debug it is a traceback."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """As typer's, but a faulty command line is reported in plain lines: boxes are slow."""
        if not settings.get("standalone_mode", True):
            return super().main(*args, **settings)
        settings["standalone_mode"] = False
        try:
            code = super().main(*args, **settings)
        except FAULTY_LINE as error:
            if str(error):  # empty: help was shown in its place
                error.show()
            code = error.exit_code
        except typer.Abort as abort:
            echo("aborted", err=True)
            code = INTERRUPTED if isinstance(abort.__cause__, KeyboardInterrupt) else FAILED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command and print what stopped it."""
        try:
            with _noting_interrupts() as interrupts:
                result = super().invoke(ctx)
            if interrupts:
                raise typer.Exit(INTERRUPTED)
            return result
        except TYPERS:
            raise
        except KeyboardInterrupt as interrupt:
            echo(STOPPED, err=True)
            raise typer.Exit(INTERRUPTED) from interrupt
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            message, code = explain(error)
            echo(f"error: {message}", fg="red", err=True)
            raise typer.Exit(code) from error


def mark_interrupted() -> None:
    """Let the running command end with the exit code of Ctrl-C once it has ended in good order.

    Nothing where no command runs, as when Python calls what a command does.
    """
    interrupts = _INTERRUPTS.get()
    if interrupts is not None:
        interrupts.append(INTERRUPTED)


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    interrupts: list[int] = []
    token = _INTERRUPTS.set(interrupts)
    try:
        yield interrupts
    finally:
        _INTERRUPTS.reset(token)


def explain(error: Exception) -> tuple[str, int]:
    """The message for any exception, and the exit code."""
    if type(error).__module__.split(".")[0] in OURS:
        return str(error) or type(error).__name__, FAULT if _is_internal(error) else FAILED
    message = _known_cause(error)
    if message is not None:
        return message, FAILED
    return _fault(error), FAULT


def _is_internal(error: Exception) -> bool:
    """Whether the error names a fault of kept's own; by name, which loads no package."""
    return any(kind.__name__ == "InternalError" for kind in type(error).__mro__)


def _known_cause(error: Exception) -> str | None:
    """The message where the cause is outside kept: the disk, the memory, a file that is missing."""
    message = str(error)
    chain = _chain(error)
    full = (errno.ENOSPC, errno.EDQUOT)
    if any(getattr(each, "errno", None) in full or _NO_SPACE in str(each) for each in chain):
        return f"{_at_work_on(error)}{NO_SPACE}; free some space, then run the same command again"
    if "inline_container" in message or "PytorchStreamWriter" in message:
        return (
            f"{_at_work_on(error)}torch could not write it whole; is there {NO_SPACE}? ({message})"
        )
    if any(isinstance(each, MemoryError) or _NO_MEMORY.search(str(each)) for each in chain):
        return f"{_at_work_on(error)}{NO_MEMORY}"
    if isinstance(error, RecursionError):
        return f"{_at_work_on(error)}{TOO_DEEP}"
    if isinstance(error, UnicodeDecodeError):
        return f"{_at_work_on(error)}not text in UTF-8 ({error}); give another file, or convert it"
    if isinstance(error, ValueError) and message == "embedded null byte":
        return "a path holds a NUL character, which no name of a file may"
    if isinstance(error, FileNotFoundError) and error.filename and not is_there(error.filename):
        return not_there(str(error.filename))
    if isinstance(error, OSError):
        named = error.filename if isinstance(error.filename, (str, Path)) else None
        reason = error.strerror or message or type(error).__name__
        return f"{named}: {reason}" if named else f"{_at_work_on(error)}{reason}"
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from: a writer that is closed on a full disk raises another."""
    chain = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) and earlier not in chain:
        chain.append(earlier)
    return chain


def _fault(error: Exception) -> str:
    """What happened, where, and what to do, of an exception that nothing here foresaw."""
    frame = traceback.extract_tb(_ours(error) or error.__traceback__)[-1]
    position = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    message = str(error).strip() or "no message"
    return (
        f"{_at_work_on(error)}{type(error).__name__}: {message} ({position}). "
        "This error was not expected: a file may be damaged, or of another format than kept "
        "takes it for. "
        "Run again with --debug (kept --debug COMMAND ...) for the traceback."
    )


def _at_work_on(error: Exception) -> str:
    """`FILE: `, the path that the innermost function of ours held, if it held one."""
    last = _ours(error)
    paths = [] if last is None else [v for v in last.tb_frame.f_locals.values() if _is_path(v)]
    return f"{paths[0]}: " if paths else ""


def _is_path(value: object) -> bool:
    return isinstance(value, Path) and value != Path()


def _ours(error: Exception) -> TracebackType | None:
    """The innermost entry of the traceback that is in one of our packages, below this one."""
    frame, entry = None, error.__traceback__
    while entry is not None:
        name = entry.tb_frame.f_globals.get("__name__", "")
        if name.split(".")[0] in OURS and name != __name__:
            frame = entry
        entry = entry.tb_next
    return frame
