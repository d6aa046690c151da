"""What commands that read files into a graph share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kept.apps.cli.declared import option
from kept.apps.cli.kg.rdf_options import RdfOptions
from kept.apps.cli.kg.summary import AsJson
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_THREADS

if TYPE_CHECKING:
    from kg_loaders.build import Source
    from kg_loaders.damage import DamageReport

N_SHOWN = 5


def _texts(columns: str) -> Any:
    return option(f"TSV file of {columns}.", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class InputOptions(RdfOptions):
    """What `kept kg build` and `kept kg add` are given about the files that they read."""

    labels: list[Path] | None = _texts("names: id, label[, description]")
    aliases: list[Path] | None = _texts("further names: id, alias[, count]")
    descriptions: list[Path] | None = _texts("descriptions: id, description")
    types: list[Path] | None = _texts("types: id, type")
    relation_labels: list[Path] | None = _texts(
        "names of relations: relation, label[, description]"
    )
    format: str | None = option(
        "Format of all SOURCES, one of: {kg_loaders.build:FORMATS} (default: by the name of each "
        "file)."
    )
    order: str | None = option(
        "Columns of a table (TSV, CSV, Parquet). Either letters in their order, h(ead), "
        "r(elation), t(ail) and - for others, such as hrt or htr--; or the names of these three "
        "columns, such as from,kind,to.",
        metavar="ORDER",
    )
    header: Literal["auto", "yes", "no", "wide"] = option(
        "Whether the first row of a table names its columns. wide: it does, and each row is an "
        "entity, each further column a relation.",
        default="auto",
    )
    encoding: str | None = option(
        "Encoding of TSV and CSV files that are neither UTF-8 nor UTF-16, such as latin-1 or "
        "cp1252.",
        metavar="NAME",
    )
    types_of_facts: bool = option(
        "If no file gives types, take them from facts (P31, rdf:type, or a relation named "
        "`instance of`). The facts stay.",
        default=True,
    )
    workers: int = option(
        "Number of processes that read .nt, .nq and .tsv files. It does not change the result.",
        default=1, bounds=(1, MAX_THREADS),
    )  # fmt: skip
    as_json: AsJson = False

    def text_sources(self, language: str = "en") -> list[Source]:
        """Return the files of texts as sources, all in one language."""
        from kg_loaders import Source

        text_files = []
        for files, columns, is_relation in (
            (self.labels, ("label", "description"), False),
            (self.aliases, ("alias", "count"), False),
            (self.descriptions, ("description",), False),
            (self.types, ("type",), False),
            (self.relation_labels, ("label", "description"), True),
        ):
            settings = {"columns": columns, "language": language, "is_relation": is_relation}
            text_files += [Source(path, "texts", settings) for path in files or ()]
        return text_files

    def with_columns(self, sources: list[Source]) -> list[Source]:
        """Return the same sources, tables with what the options say of their columns."""
        from kg_loaders.build import with_table_options

        header = None if self.header == "auto" else self.header
        return with_table_options(sources, order=self.order, header=header, encoding=self.encoding)


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
