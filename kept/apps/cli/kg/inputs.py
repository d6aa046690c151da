"""What commands that read files into a graph share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kept.apps.cli.terminal import echo

if TYPE_CHECKING:
    from kg_loaders.build import Source
    from kg_loaders.damage import DamageReport

TextFiles = list[Path] | None
Order = Annotated[
    str | None,
    typer.Option(
        metavar="ORDER",
        help="Columns of a table (TSV, CSV, Parquet). Either letters in their order, h(ead), "
        "r(elation), t(ail) and - for others, such as hrt or htr--; or the names of "
        "these three columns, such as from,kind,to.",
    ),
]
Header = Annotated[
    Literal["auto", "yes", "no", "wide"],
    typer.Option(
        help="Whether the first row of a table names its columns. wide: it does, and each "
        "row is an "
        "entity, each further column a relation."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding of TSV and CSV files that are neither UTF-8 nor UTF-16, such as "
        "latin-1 or cp1252.",
    ),
]
TypesOfFacts = Annotated[
    bool,
    typer.Option(
        "--types-of-facts/--no-types-of-facts",
        help="If no file gives types, take them from facts (P31, rdf:type, or a relation "
        "named `instance of`). The facts stay.",
    ),
]
N_SHOWN = 5


def text_option(help: str) -> typer.models.OptionInfo:
    """An option for files of texts."""
    option: typer.models.OptionInfo = typer.Option(help=f"TSV file of {help}.", metavar="FILE")
    return option


def text_sources(
    labels: TextFiles,
    aliases: TextFiles,
    descriptions: TextFiles,
    types: TextFiles,
    relation_labels: TextFiles,
    language: str = "en",
) -> list[Source]:
    """The files of texts as sources, all in one language."""
    from kg_loaders import Source

    text_files = []
    for files, columns, is_relation in (
        (labels, ("label", "description"), False),
        (aliases, ("alias", "count"), False),
        (descriptions, ("description",), False),
        (types, ("type",), False),
        (relation_labels, ("label", "description"), True),
    ):
        options = {"columns": columns, "language": language, "is_relation": is_relation}
        text_files += [Source(path, "texts", options) for path in files or ()]
    return text_files


def table_sources(
    sources: list[Source], order: str | None, header: str, encoding: str | None
) -> list[Source]:
    """The same sources, tables with what the options say of them."""
    from kg_loaders.build import with_table_options

    return with_table_options(
        sources, order=order, header=None if header == "auto" else header, encoding=encoding
    )


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar of the bytes that have been read, with the time left; where there is a terminal."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from kept.apps.cli.console import TerminalConsole

    console = TerminalConsole(stderr=True)
    with Progress(
        BarColumn(), DownloadColumn(), TransferSpeedColumn(), TextColumn("left"),
        TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        yield lambda n, n_bytes: bar.update(task, completed=n, total=n_bytes)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int], None]]:
    """How many there are so far, and how long it took; where there is a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from kept.apps.cli.console import TerminalConsole

    console = TerminalConsole(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.completed:,.0f} " + what), TimeElapsedColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)
        yield lambda n: bar.update(task, completed=n)


def show_damage(report: DamageReport) -> None:
    """Print what was rejected and skipped."""
    for rejection in report.rejections[:N_SHOWN]:
        echo(f"rejected: {rejection}", fg="yellow", err=True)
    if report.n_rejected > N_SHOWN:
        echo(f"... and {report.n_rejected - N_SHOWN} more: {report.reasons}", err=True)
    for reason, n in report.skipped.items():
        echo(f"skipped: {reason}: {n}", err=True)
