"""The command line `kept`. Each sub-command is one module of this package."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from entity_linking.errors import LinkingError
from kept.cli import kg, kgc, link
from kept.cli.compare import compare
from kept.cli.convert import convert
from kept.cli.demo import demo
from kept.cli.finetune import finetune
from kept.cli.pretrain import ListsNames, pretrain
from kept.cli.probe import probe
from kept.cli.report import report
from kept.cli.show import show
from kept.errors import KeptError
from kg_loaders.errors import KgError


class _TellsErrors(TyperGroup):
    """An error of ours, or of the file system, is one message and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KgError, LinkingError, KeptError, OSError) as error:
            typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
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
app.command("probe")(probe)
app.add_typer(link.app, name="link")
app.add_typer(kg.app, name="kg")
app.add_typer(kgc.app, name="kgc")


def main() -> None:
    """Entry point of the console script."""
    app()
