"""Ctrl-C ends every command with exit code 130, as it ends any program."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from kept.apps.cli.errors import ErrorReportingGroup, mark_interrupted
from kept.apps.cli.training.run import catch_interrupt


@pytest.fixture(autouse=True)
def heeds_interrupts() -> Iterator[None]:
    """A process that a shell starts in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def app_of(command: object) -> typer.Typer:
    app = typer.Typer(cls=ErrorReportingGroup)
    app.callback()(lambda: None)
    app.command("work")(command)  # type: ignore[type-var]
    return app


def work_until_interrupted() -> None:
    signal.raise_signal(signal.SIGINT)
    raise AssertionError("a signal is delivered before the next statement")


def train_until_interrupted() -> None:
    with catch_interrupt() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop == [signal.SIGINT]
    typer.echo("checkpoint written")


def train_until_terminated() -> None:
    with catch_interrupt() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop == [signal.SIGTERM]


def fail_by_abort() -> None:
    raise typer.Abort


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (work_until_interrupted, 130, ""),
        (train_until_interrupted, 130, "checkpoint written"),
        (train_until_terminated, 0, ""),
        (fail_by_abort, 1, "aborted"),
    ],
)
def test_an_interrupt_is_exit_code_130(command: object, code: int, says: str) -> None:
    result = CliRunner().invoke(app_of(command), ["work"])
    assert result.exit_code == code
    assert says in result.output


def test_one_command_leaves_no_mark_on_the_next() -> None:
    runner, app = CliRunner(), app_of(train_until_interrupted)
    app.command("other")(lambda: None)
    assert runner.invoke(app, ["work"]).exit_code == 130
    assert runner.invoke(app, ["other"]).exit_code == 0
    mark_interrupted()  # outside of any command
    assert runner.invoke(app, ["other"]).exit_code == 0
