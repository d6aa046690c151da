"""The command line `kept`. Each sub-command is one module of this package.

A module that declares a command imports typer and other light packages only; what the command
needs is imported when it is called: inside the function or, where it is long, from a module
`*_run`. Names of a table in a help text are `{module:TABLE}`
(`kept.apps.cli.options.KeptCommand`). So `kept --help` and every mistyped command or option answer
at once
(`tests/kept/apps/cli/test_startup.py`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from copy import copy
from typing import Annotated

import typer

from kept.apps.cli import data, kg, kgc
from kept.apps.cli.ask import ask
from kept.apps.cli.check import command as check
from kept.apps.cli.comparing.audit import audit
from kept.apps.cli.comparing.compare import compare_command
from kept.apps.cli.comparing.curve import curve
from kept.apps.cli.comparing.report import report_command
from kept.apps.cli.convert import convert
from kept.apps.cli.demo import demo
from kept.apps.cli.doctor.command import doctor
from kept.apps.cli.errors import ErrorReportingGroup
from kept.apps.cli.first_screen import first_screen
from kept.apps.cli.link import command as link
from kept.apps.cli.options import KeptCommand
from kept.apps.cli.pages.explore import explore
from kept.apps.cli.pages.serve import serve
from kept.apps.cli.pages.show import show
from kept.apps.cli.probe import probe_command
from kept.apps.cli.terminal import echo
from kept.apps.cli.training import vectors
from kept.apps.cli.training.extend import extend
from kept.apps.cli.training.finetune import finetune_command
from kept.apps.cli.training.fit import fit_command
from kept.apps.cli.training.predict import predict_command
from kept.apps.cli.training.pretrain import pretrain_command
from kept.training.processes.launch import rank_and_size, require_alone

app = typer.Typer(
    name="kept",
    cls=ErrorReportingGroup,
    help="Put your knowledge graph into your language model, and see honestly whether it helped.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        echo(f"kept {version('kept')}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version of kept."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error instead of a message.")
    ] = False,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline", help="Do not use the network for models; the same as HF_HUB_OFFLINE=1."
        ),
    ] = False,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar="'NAME=NUMBER ...'",
            help="Raise limits on what one input file may cost, for files that you trust, such "
            "as 'document_bytes=4G entities=50' (default: the variable KEPT_LIMITS, "
            "otherwise kept's own limits).",
        ),
    ] = None,
) -> None:
    """Put your knowledge graph into your language model, and see honestly whether it helped."""
    require_alone(ctx.invoked_subcommand)
    if rank_and_size().rank:
        logging.getLogger("kept").setLevel(logging.ERROR)  # the first process says it
    if limits is not None:
        from kg_loaders.budget import VARIABLE, ReaderBudget

        ReaderBudget.from_settings(limits)
        os.environ[VARIABLE] = limits  # of the processes that parse documents, too
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when the library of the hub is imported


COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look": (demo, explore, show, doctor),
    "Graphs and texts": (),
    "Train and predict": (
        fit_command,
        pretrain_command,
        finetune_command,
        predict_command,
        ask,
        extend,
        convert,
        serve,
    ),
    "Compare and check": (compare_command, report_command, probe_command, audit, curve),
}
GROUPS = {
    "Graphs and texts": {"kg": kg, "link": link, "data": data, "kgc": kgc, "vectors": vectors},
    "Compare and check": {"check": check},
}
"""What there is, by what it is for: the panels of `kept --help`."""
for _panel, _commands in COMMANDS.items():
    for _command in _commands:
        app.command(_command.__name__, cls=KeptCommand, rich_help_panel=_panel)(_command)
    for _name, _module in GROUPS.get(_panel, {}).items():
        app.add_typer(_module.app, name=_name, rich_help_panel=_panel)


def _called(words: list[str]) -> typer.Typer:
    """`app` with no other command than the one that `words` begin with; all of it if they do not.

    typer makes every option of every command before it reads a line, which is slow.
    """
    called = copy(app)
    called.registered_commands = [c for c in app.registered_commands if c.name in words[:1]]
    called.registered_groups = [g for g in app.registered_groups if g.name in words[:1]]
    return called if called.registered_commands or called.registered_groups else app


def main() -> None:
    """Entry point of the console script.

    Arrow allocates as the system does, whose memory at the peak is less than that of Arrow's own
    allocator: 52 instead of 80 MB to build a graph of 300,000 triples, in the same time.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.argv[1:] == ["--help"] and "_KEPT_COMPLETE" not in os.environ:
        echo(first_screen(app))
        sys.exit()
    _called(sys.argv[1:])()
