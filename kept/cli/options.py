"""Options that several commands share, and help that names the lines of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kept.errors import ConfigError
from kept.suggestions import is_there, near, not_there, require_local


def existing(value: Any) -> Any:
    """A callback of options for what is read: refuses a path that is not there, before any work."""
    for path in value if isinstance(value, (list, tuple)) else [value]:
        if path is not None and not is_there(path):
            raise ConfigError(not_there(path))
    return value


def finite(value: float | None) -> float | None:
    """A callback of options for numbers: neither NaN nor infinity is one."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def one_of(*names: str) -> Callable[[str | None], str | None]:
    """A callback of options for a name out of a few."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            meant = near(value, names)
            told = f"; did you mean {' or '.join(meant)}?" if meant else ""
            raise typer.BadParameter(f"{value!r} is none of {', '.join(names)}{told}")
        return value

    return check


def local_or_hub(value: str | None) -> str | None:
    """A callback of options for models: refuses what can only be a folder, and is none."""
    if value is not None:
        require_local(value)
    return value


MAX_SEED, MAX_COUNT, MAX_THREADS, MAX_MINUTES = 2**63 - 1, 10**9, 1024, 10**7
"""Above these a number is a slip: it overflows somewhere, or asks for what no machine has."""

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", callback=existing, help="YAML file; flags lie over it."),
]
Graph = Annotated[
    Path | None, typer.Option("--kg", callback=existing, help="Folder of the knowledge graph.")
]
LearningRate = Annotated[
    float | None, typer.Option("--lr", min=0, max=10, callback=finite, help="Of the network.")
]
Seed = Annotated[int | None, typer.Option(min=0, max=MAX_SEED, help="Of everything random.")]
Threads = Annotated[int | None, typer.Option(min=1, max=MAX_THREADS, help="Threads of torch.")]
Minutes = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=MAX_MINUTES,
        callback=finite,
        help="Stop with a checkpoint after so many minutes.",
    ),
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
