"""Every command with every kind of path in each option and argument that takes one.

Whatever a path leads to, a command ends with a result or a message: it does not wait for a pipe,
does not read a device without an end, does not take what is no file for text, and leaves what is
there as it is. `KEPT_PATH_STRIDE=1` tries all of what is there in all places, which takes minutes.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.errors import FAULT
from kept.apps.cli.options import WRITTEN
from tests.fuzz.options import make_place
from tests.kept.apps.cli.path_kinds import (
    BASES,
    NO_NAMES,
    NOT_REGULAR,
    NOT_THERE,
    THINGS,
    content,
    every_command,
    make_kinds,
    path_parameters,
    words_with,
)

COMMANDS = every_command()
STRIDE = int(os.environ.get("KEPT_PATH_STRIDE", "7"))
SECONDS = 60
MODELS = {"decoder", "host", "model", "models", "probe", "spaces", "tagger", "tokenizer"}
"""Texts that name a folder or something else, and are no text to be worked on."""
SPARED = {
    ("vectors train", "model"), ("convert", "method"), ("kgc train", "host"), ("fit", "text"),
    ("audit", "text"), ("check reading", "host"),
}  # fmt: skip
"""Where a name of something else is meant, or another option is refused first."""

IN_PLACE = {("kg add", "out"): {"kg", "kg/", "to_folder"}}
"""Paths that mean the input itself, which the command then changes, as it should."""


class TooLateError(BaseException):
    """A command that does not end."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise TooLateError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes | str]]:
    """The working directory: a graph, a model and something of each kind; gives all of it."""
    folder = tmp_path_factory.mktemp("kinds") / "place"
    make_place(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_kinds()
        yield content()
        os.chmod("unreadable_folder", 0o700)


def run(words: list[str]) -> tuple[int, str]:
    """The exit code and the output; an exception is a code of its own."""
    try:
        with limited(SECONDS):
            result = CliRunner().invoke(app, words)
    except TooLateError:
        return -1, f"does not end within {SECONDS} s"
    if not isinstance(result.exception, (SystemExit, type(None))):
        return -2, repr(result.exception)
    return result.exit_code, result.output


def restored(world: dict[str, bytes | str]) -> list[str]:
    """Remove what a command made; returns what it changed of what was there."""
    now = content()
    for name in sorted(now.keys() - world.keys(), reverse=True):
        path = Path(name)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return sorted(name for name in world if now.get(name) != world[name])


def is_input(parameter: Any) -> bool:
    return "Path" in str(parameter.type_descriptor.annotation) and parameter.name not in WRITTEN


def faults(name: str, parameter: Any, path: str, is_refused: bool, is_named: bool) -> list[str]:
    """What is wrong with how a command takes a path."""
    code, output = run(words_with(name, COMMANDS[name], parameter, path))
    message = f"{parameter.name} {path[:30]!r}: {code} {output[-300:]}"
    if code in (-1, -2, FAULT) or (is_refused and code == 0):
        return [message]
    text = "".join(output.split())
    return [f"not named: {message}"] if is_named and path[:20] not in text else []


def test_every_command_has_a_line() -> None:
    assert BASES.keys() == COMMANDS.keys()
    assert sum(len(path_parameters(command)) for command in COMMANDS.values()) > 190


@pytest.mark.parametrize("name", COMMANDS)
def test_a_path_of_any_kind_ends_well(name: str, world: dict[str, bytes | str]) -> None:
    problems: list[str] = []
    for number, parameter in enumerate(path_parameters(COMMANDS[name])):
        is_path = is_input(parameter)
        is_model = parameter.name in MODELS and (name, parameter.name) not in SPARED
        for path in NOT_REGULAR:
            is_refused = is_path or is_model or parameter.name in ("output", "out")
            problems += faults(name, parameter, path, is_refused, is_path)
        for path in NOT_THERE:
            problems += faults(name, parameter, path, is_path, is_path)
        in_place = IN_PLACE.get((name, parameter.name), set())
        things = [path for path in THINGS[number % STRIDE :: STRIDE] if path not in in_place]
        for path in (*NO_NAMES, *things):
            problems += faults(name, parameter, path, is_refused=False, is_named=False)
        changed = restored(world)
        problems += [f"{parameter.name}: changed {changed}"] if changed else []
    assert not problems, f"{len(problems)} of {name}:\n" + "\n".join(problems)
