"""Every option of every command: bounds on numbers, files that are there, nonsense of any kind."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from kept.apps.cli import app
from kept.apps.cli.options import WRITTEN, KeptCommand
from kept.errors import KeptError
from tests.kept.apps.cli.test_startup import COMMANDS, Loaded, commands

KEPT: Any = typer.main.get_command(app)
TREE: dict[tuple[str, ...], Any] = dict(commands(KEPT))
for _command in TREE.values():  # they are read and checked here, and do nothing
    _command.callback = lambda **_: None


def kind(parameter: Any) -> str:
    """The annotation of an option, as text."""
    return str(parameter.type_descriptor.annotation)


def of_kind(*names: str) -> list[tuple[tuple[str, ...], Any]]:
    return [
        (words, parameter)
        for words, command in TREE.items()
        for parameter in command.params
        if any(re.search(rf"\b{name}\b", kind(parameter)) for name in names)
    ]


NUMBERS = of_kind("int", "float")
FILES = [(words, one) for words, one in of_kind("Path") if one.name not in WRITTEN]
"""Commands and their options, for numbers and for what is read."""


def test_every_command_checks_its_values() -> None:
    assert all(isinstance(command, KeptCommand) for command in TREE.values())
    assert (len(NUMBERS), len(FILES)) >= (40, 45)


@pytest.mark.parametrize(
    ("words", "parameter"), NUMBERS, ids=lambda each: getattr(each, "name", "")
)
def test_every_number_has_bounds(words: tuple[str, ...], parameter: Any) -> None:
    info = parameter.type_descriptor.parameter_info
    above, below = ("more than" in info.help.lower(), "less than" in info.help.lower())
    assert above or info.min is not None, f"{words}: {parameter.opts} may be as small as one likes"
    assert below or info.max is not None, f"{words}: {parameter.opts} may be as large as one likes"
    assert below or math.isfinite(info.max)


def line_with(words: tuple[str, ...], parameter: Any, value: str) -> list[str]:
    """A command line that gives `value` to one option, and something to what is required."""
    line = list(words)
    for each in TREE[words].params:
        if each is parameter:
            line += [value] if each.param_type_name == "argument" else [f"{each.opts[0]}={value}"]
        elif each.required and each.param_type_name == "argument":
            line.append("tests" if "Path" in kind(each) else "x")
        elif each.required:
            line.append(f"{each.opts[0]}=tests")
    return line


def parse(line: list[str]) -> None:
    """All that happens before a command begins: reading the line, the values, the paths."""
    context = KEPT.make_context("kept", line)
    while hasattr(context.command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, chosen, rest = context.command.resolve_command(context, rest)
        context = chosen.make_context(name, rest, parent=context)
    context.command.invoke(context)


REFUSALS: tuple[type[BaseException], ...] = (
    KeptError,
    typer.Exit,
    typer.BadParameter.__mro__[2],
)


OPEN = ("dev_share", "test_share", "budget")
"""Options of `kept fit` whose bounds are no values of theirs."""


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "-1e9", "1e30", "x", ""])
def test_no_number_is_nonsense(value: str) -> None:
    for words, parameter in NUMBERS:
        if words == ("fit",) and parameter.name in OPEN:
            continue  # its model refuses them, with all other faults: tests/kept/lab/fitting
        with pytest.raises(REFUSALS):
            parse(line_with(words, parameter, value))


@pytest.fixture(scope="module", autouse=True)
def _folder_with_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Work in a folder that holds a folder `tests`, and nothing else."""
    before, folder = Path.cwd(), tmp_path_factory.mktemp("options")
    (folder / "tests").mkdir()
    os.chdir(folder)
    yield
    os.chdir(before)


def test_every_file_that_is_read_must_be_there() -> None:
    for words, parameter in FILES:
        with pytest.raises(KeptError, match=r"test does not exist.*did you mean tests"):
            parse(line_with(words, parameter, "test"))


NONSENSE = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["nan", "-inf", "1e999", "0x10", "١٢", "--", "-", "\x00", "\x1b[2J", "\udcff"]),
    st.text(max_size=20),
)
ANY_OPTION = st.sampled_from(
    [(words, each) for words, command in TREE.items() for each in command.params]
)


@settings(max_examples=120, deadline=None)
@given(option=ANY_OPTION, value=NONSENSE)
def test_nonsense_is_refused_or_taken_and_never_a_crash(
    option: tuple[tuple[str, ...], Any], value: str
) -> None:
    words, parameter = option
    with contextlib.suppress(*REFUSALS):
        parse(line_with(words, parameter, value))


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_a_missing_file_loads_nothing_heavy(names: tuple[str, ...], loaded: Loaded) -> None:
    read = [one for words, one in FILES if words == names]
    if not read:
        assert names == ("check", "reading"), f"{names} reads nothing"
        return
    code, modules, message = loaded(*line_with(names, read[0], "test"))
    assert (code, modules) == (1, "")
    assert "test does not exist" in message
    assert "did you mean tests?" in message


def test_cases_of_the_command_line_are_those_of_links() -> None:
    from typing import get_args

    from entity_linking.names.rules.case import CASES
    from kept.bounds import CaseName

    assert get_args(CaseName) == tuple(CASES)
