"""Options that several commands share, and help that names the lines of a table."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file; flags lie over it.")
]
LearningRate = Annotated[float | None, typer.Option("--lr", help="Of the network.")]
Seed = Annotated[int | None, typer.Option(help="Of everything random.")]
Threads = Annotated[int | None, typer.Option(help="Threads of torch.")]
Minutes = Annotated[
    float | None, typer.Option(help="Stop with a checkpoint after so many minutes.")
]
Going = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")
]
Skipping = Annotated[
    bool, typer.Option("--skip-damaged", help="With --resume: pass over damaged checkpoints.")
]
_TABLE = re.compile(r"\{([\w.]+):(\w+)\}")


class ListsNames(TyperCommand):
    """A command in whose help `{module:TABLE}` stands for the names in that table.

    The module is imported when the help is shown, not when the command is declared.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with names."""
        for parameter in self.params:
            told = getattr(parameter, "help", None)
            if told:
                parameter.help = _TABLE.sub(_names, told)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def _names(found: re.Match[str]) -> str:
    module, table = found.groups()
    return ", ".join(getattr(import_module(module), table))
