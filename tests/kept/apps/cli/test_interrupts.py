"""Ctrl-C ends every command with exit code 130, as it ends any program."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kept.apps.cli.errors import ErrorReportingGroup, mark_interrupted
from kept.apps.cli.training.run import catch_interrupt
from kg_loaders import KnowledgeGraph
from tests.kills.kill_commands import COMMANDS, make_world


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
        (work_until_interrupted, 130, "stopped by Ctrl-C; run the same command again\n"),
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


LINES = {
    name: COMMANDS[name].arguments for name in ("finetune", "pretrain", "kgc train", "compare")
}
LINES["fit"] = ("fit", "WORLD/labelled.csv", "--kg", "WORLD/kg", "-o", "OUT/fit")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, small_graph: KnowledgeGraph) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_world(folder, small_graph)
    (folder / "labelled.csv").write_text("text,label\n" + "Rouen,a\nFrance,b\n" * 20)
    (folder / "links.jsonl").touch()
    return folder


def processor_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="processor time as Linux has it")
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("moment", [0.2, 0.9])
def test_an_interrupt_while_a_command_is_loaded(
    name: str, moment: float, world: Path, tmp_path: Path
) -> None:
    """At a fifth of a second the command line itself is imported, later torch is."""
    places = {"WORLD": str(world), "OUT": str(tmp_path)}
    words = [re.sub("WORLD|OUT", lambda m: places[m[0]], word) for word in LINES[name]]
    process = subprocess.Popen(
        [sys.executable, "-m", "kept", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    while processor_seconds(process) < moment and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (130, "stopped by Ctrl-C; run the same command again\n")
    assert list(tmp_path.iterdir()) == []
