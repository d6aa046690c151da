"""Every command's help ends with an example, whose command and options there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kept.apps.cli import app

EXAMPLE = re.compile(r"Example: (kept .+?)(?:\n\n|\Z)", re.DOTALL)


def commands(command: Any, path: tuple[str, ...] = ("kept",)) -> Iterator[tuple[str, Any]]:
    """Every command with its words; groups are walked through."""
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_the_commands_were_found() -> None:
    assert len(COMMANDS) >= 35


@pytest.mark.parametrize("name", COMMANDS)
def test_its_help_has_an_example(name: str) -> None:
    command = COMMANDS[name]
    example = EXAMPLE.search(command.help or "")
    assert example is not None, f"the help of {name} has no example"
    words = shlex.split(" ".join(example[1].split()).rpartition("; ")[2])  # the last of several
    command_words = name.split()
    if name != "kept link text":  # the command that `kept link` means without another word
        assert words[: len(command_words)] == command_words
    options = {option for each in command.params for option in getattr(each, "opts", [])}
    options |= {option for each in command.params for option in getattr(each, "secondary_opts", [])}
    flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert flags <= options, f"{name} has no {flags - options}"
