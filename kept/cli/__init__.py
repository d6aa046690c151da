"""The command line `kept`. Each sub-command is one module of this package."""

from __future__ import annotations

import typer

from kept.cli.link import link
from kept.cli.pretrain import pretrain

app = typer.Typer(
    name="kept",
    help="Put your knowledge graph into your language model, and see honestly whether it helped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Put your knowledge graph into your language model, and see honestly whether it helped."""


app.command("pretrain")(pretrain)
app.command("link")(link)


def main() -> None:
    """Entry point of the console script."""
    app()
