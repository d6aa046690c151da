"""Commands whose options are a dataclass: a field is the option, its help and its value."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.apps.cli.declared import Declared, argument, option, required, switch, takes
from kept.apps.cli.options import LinkCase
from kept.linking.linkers import LinkerSettings, settings_from


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Options of several commands."""

    case: LinkCase = None
    n: int = option("A number.", default=2, bounds=(1, 9))


@dataclass(frozen=True, kw_only=True)
class Sample(Shared):
    """Options of every kind."""

    text: str = argument("A text.")
    kg: Path = required("A graph.", "--kg", "-k")
    names: list[str] | None = option("Names.", "--name")
    as_json: bool = switch("Print JSON.", "--json")
    deep: bool = switch("Look deep.")


@takes(Sample)
def sample(options: Sample) -> None:
    """Print what was given."""
    typer.echo(repr(options))


def call(*line: str) -> Any:
    group = typer.Typer(rich_markup_mode=None)
    group.command()(sample)
    return CliRunner().invoke(group, line)


def test_a_command_gets_one_value() -> None:
    printed = call("a", "-k", "kg", "--name", "x", "--name", "y", "--json", "--case", "sensitive")
    wanted = Sample(text="a", kg=Path("kg"), names=["x", "y"], as_json=True, case="sensitive")
    assert printed.output.strip() == repr(wanted)
    assert call("a", "--kg", "kg").output.strip() == repr(Sample(text="a", kg=Path("kg")))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (("a",), "Missing option '--kg'"),
        (("--kg", "kg"), "Missing argument 'text'"),
        (("a", "--kg", "kg", "--n", "10"), "'--n': Input should be less than or equal to 9"),
        (("a", "--kg", "kg", "--no-deep"), "No such option: --no-deep"),
    ],
)
def test_faults_name_the_option(line: tuple[str, ...], says: str) -> None:
    result = call(*line)
    assert result.exit_code == 2
    assert says in result.output


def test_the_help_has_every_field() -> None:
    text = call("--help").output
    assert "Print what was given." in text
    for words in ("A number.", "A graph.", "Names.", "Print JSON.", "Look deep."):
        assert words in text


def commands(group: Any) -> list[Any]:
    callbacks = [each.callback for each in group.registered_commands]
    return callbacks + [
        c for each in group.registered_groups for c in commands(each.typer_instance)
    ]


def test_no_command_is_handed_more_than_eight_options_by_name() -> None:
    """A long list of parameters is a class: it is declared once, and handed on as one value."""
    callbacks = commands(app)
    assert len(callbacks) > 40
    assert sum(isinstance(each, Declared) for each in callbacks) >= 30
    for each in callbacks:
        if not isinstance(each, Declared):
            assert len(inspect.signature(each).parameters) <= 8, each


def test_a_linker_is_made_of_the_fields_of_the_same_names() -> None:
    options = LinkingCommand(
        kg=Path("kg"), languages=["en"], method="overlap", decision=Path("d"), limit=3
    )
    assert settings_from(options) == LinkerSettings(
        kg="kg", languages=("en",), method="overlap", decision="d"
    )
    assert settings_from(options, "kg", "method") == LinkerSettings(kg="kg", method="overlap")


@dataclass
class LinkingCommand:
    """Options of a command that links, and one that is not about the linker."""

    kg: Path
    languages: list[str] | None
    method: str
    decision: Path | None
    limit: int
    index: Path | None = None
