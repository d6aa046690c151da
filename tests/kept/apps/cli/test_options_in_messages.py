"""Options that messages name as a remedy exist, in the command that they name or in any."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
from typer.main import get_command

import kept
from kept.apps.cli import app

PACKAGES = [
    Path(kept.__file__).parents[1] / name for name in ("kept", "kg_loaders", "entity_linking")
]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OF_OTHER_PROGRAMS = {
    "--help", "--nproc-per-node", "--logdir", "--backend-store-uri", "--axis", "--no-deps",
    "--force-reinstall", "--syntax",
}  # fmt: skip
"""torchrun's, pip's, tensorboard's, riot's; --axis is CSS."""


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """The name and the options of every command below one, those of its groups with them."""
    own_options = {each for p in command.params for each in (*p.opts, *p.secondary_opts)}
    yield name, own_options
    for key, below in getattr(command, "commands", {}).items():
        for sub_name, options in commands(below, f"{name} {key}".strip()):
            yield sub_name, own_options | options


@cache
def texts() -> list[tuple[str, str]]:
    """The places and the strings of all modules that name an option; what is filled in is left
    out."""
    modules = [path for package in PACKAGES for path in package.rglob("*.py")]
    assert len(modules) > 500
    messages = []
    for path in modules:
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if OPTION.search(source) else ():
            text = ""
            if isinstance(node, ast.JoinedStr):
                parts = [v.value for v in node.values if isinstance(v, ast.Constant)]
                text = "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            if OPTION.search(text):
                messages.append((f"{path.name}:{getattr(node, 'lineno', 0)}", text))
    return messages


def test_options_in_messages_exist() -> None:
    options = dict(commands(get_command(app)))
    known = {option for each in options.values() for option in each} | OF_OTHER_PROGRAMS
    missing = {
        f"{source}: {option}"
        for source, text in texts()
        for option in OPTION.findall(text)
        if option not in known
    }
    assert missing == set()


def test_options_that_follow_a_command_are_that_commands() -> None:
    options = dict(commands(get_command(app)))
    line = re.compile(r"kept ((?:[a-z-]+ ?){1,3})([^`;,.)]*)")
    wrong = set()
    for source, text in texts():
        for words, rest in line.findall(text):
            names = [" ".join(words.split()[:n]) for n in (3, 2, 1)]
            name = next((each for each in names if each in options), None)
            if name is None:
                continue
            below = {o for key, each in options.items() if key.startswith(name) for o in each}
            wrong |= {
                f"{source}: kept {name} {option}"
                for option in OPTION.findall(rest)
                if option not in below | OF_OTHER_PROGRAMS
            }
    assert wrong == set()
