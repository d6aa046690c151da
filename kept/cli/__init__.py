"""The command line `kept`. Each sub-command is one module of this package.

A module that declares a command imports typer and what is as light; what the command does, it
imports when it is called: inside the function or, where it is long, from a module `*_run`. Names of
a table in a help text are `{module:TABLE}` (`kept.cli.options.ListsNames`). So `kept --help` and
every mistyped command or option answer at once (`tests/kept/cli/test_startup.py`).
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from kept.cli import kg, kgc, link
from kept.cli.audit import audit
from kept.cli.compare import compare
from kept.cli.convert import convert
from kept.cli.curve import curve
from kept.cli.demo import demo
from kept.cli.finetune import finetune
from kept.cli.options import ListsNames
from kept.cli.pretrain import pretrain
from kept.cli.probe import probe
from kept.cli.report import report
from kept.cli.show import show
from kept.cli.terminal import echo

OURS = ("kept", "entity_linking", "kg_loaders")
"""Packages whose exceptions are errors of the user; asked by name, which loads none of them."""


class _TellsErrors(TyperGroup):
    """An error of ours, or of the file system, is one message and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not (isinstance(error, OSError) or type(error).__module__.split(".")[0] in OURS):
                raise
            echo(f"error: {error}", fg="red", err=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    name="kept",
    cls=_TellsErrors,
    help="Put your knowledge graph into your language model, and see honestly whether it helped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Put your knowledge graph into your language model, and see honestly whether it helped."""


app.command("demo")(demo)
app.command("show")(show)
app.command("pretrain", cls=ListsNames)(pretrain)
app.command("compare")(compare)
app.command("report")(report)
app.command("convert")(convert)
app.command("finetune")(finetune)
app.command("audit")(audit)
app.command("curve")(curve)
app.command("probe")(probe)
app.add_typer(link.app, name="link")
app.add_typer(kg.app, name="kg")
app.add_typer(kgc.app, name="kgc")


def main() -> None:
    """Entry point of the console script."""
    app()
