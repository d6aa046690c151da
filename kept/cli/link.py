"""`kept link`: find the entities of a knowledge graph in text, and what goes with it.

`kept link FILE|TEXT` links; the other commands of the group are modules `link_*` of this package.
Nothing here loads torch before a command needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from typer.core import TyperGroup

from entity_linking.annotations import to_json
from entity_linking.dictionary import CASES, Case
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from kept.cli.link_calibrate import calibrate
from kept.cli.link_corrupt import corrupt
from kept.cli.link_index import index as index_command
from kept.cli.link_inputs import FOLDERS, FORMATS, Item, count_lines, format_of, read_items
from kept.cli.link_score import score
from kept.cli.link_stream import PartialOutput, Work, link_stream
from kept.cli.link_table import print_links
from kept.cli.link_train import train
from kept.link_graphs import IDENTIFIERS
from kept.linkers import METHODS, LinkerSettings, Method, linker_key, open_graph
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamagePolicy, DamageReport

DEFAULT = "text"
N_SHOWN = 20


class LinksByDefault(TyperGroup):
    """A group whose command is `text` when the first argument names none of them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command; `kept link --help` stays that of the group."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands, then everything about the default one."""
        super().format_help(ctx, formatter)
        default = self.commands[DEFAULT]
        default.format_help(type(ctx)(default, info_name=DEFAULT, parent=ctx), formatter)


app = typer.Typer(cls=LinksByDefault, no_args_is_help=True)
app.command("index")(index_command)
app.command("train")(train)
app.command("calibrate")(calibrate)
app.command("score")(score)
app.command("corrupt")(corrupt)


@app.callback()
def _group() -> None:
    """Link text to a knowledge graph; the command `text` need not be named.

    Example: kept link notes.txt --kg kg/ -o linked.jsonl
    """


TextFiles = list[Path] | None


@app.command(DEFAULT)
def link(
    source: Annotated[str, typer.Argument(metavar="FILE|TEXT", help="A file, or text itself.")],
    kg: Annotated[
        Path, typer.Option("--kg", help="Folder of the knowledge graph, or a file to read it from.")
    ],
    labels: Annotated[
        TextFiles, typer.Option(help="With a file as --kg, TSV: id, label.", metavar="FILE")
    ] = None,
    aliases: Annotated[
        TextFiles, typer.Option(help="With a file as --kg, TSV: id, alias.", metavar="FILE")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Folder made by `kept link index`; else in memory.")
    ] = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "prior",
    model: Annotated[
        Path | None, typer.Option(help="Folder made by `kept link train`, for method trained.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help=f"Of FILE, one of {', '.join(FORMATS)}; else by its name.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, no table.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the runner-up and why it was not chosen.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="With -o: go on where a run was stopped.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the output is the same.")] = 1,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that remembers what was linked.")
    ] = None,
    damage: Annotated[
        str, typer.Option(help="At an unreadable line: stop or skip.")
    ] = DamagePolicy.STOP.value,
    decision: Annotated[
        Path | None, typer.Option(help="File with a decision that was fitted on annotated text.")
    ] = None,
    case: Annotated[
        str | None, typer.Option(help=f"{', '.join(CASES)}; else that of the index, or smart.")
    ] = None,
    min_prior: Annotated[float, typer.Option(help="Drop candidates with a lower prior.")] = 0.0,
    nil_below: Annotated[float, typer.Option(help="NIL when the confidence is lower.")] = 0.0,
    min_length: Annotated[int, typer.Option(help="Shortest name, in characters.")] = 2,
    language: Annotated[
        list[str] | None, typer.Option(help="Use names in this language; may be repeated.")
    ] = None,
) -> None:
    """Find the entities of a graph in text: no training, no network.

    FILE holds a text a line, JSON lines with `text` (their `mentions`, if they have any, are only
    disambiguated), or annotations of others (--format), whose mentions are linked anew.

    Example: kept link "Paris lies on the Seine." --kg kg/ --explain
    """
    if damage not in ("stop", "skip"):
        raise LinkingError(f"--damage is {damage!r}; choose stop or skip")
    if resume and output is None:
        raise LinkingError("--resume goes on with a file; name it with -o")
    settings = LinkerSettings(
        kg=str(kg),
        labels=tuple(map(str, labels or ())),
        aliases=tuple(map(str, aliases or ())),
        index=None if index is None else str(index),
        model=None if model is None else str(model),
        decision=None if decision is None else str(decision),
        method=cast(Method, method),
        case=cast(Case | None, case),
        min_prior=min_prior,
        nil_below=nil_below,
        min_length=min_length,
        languages=None if language is None else tuple(language),
    )
    report = DamageReport(policy=DamagePolicy(damage))
    items, n_expected = _items(source, format, report)
    run = _Run(Work(settings, None if cache is None else str(cache)), workers, n_expected)
    if output is not None:
        run.write(items, output, resume=resume)
    elif as_json:
        run.print_json(items)
    else:
        run.print_table(items, explain=explain)
    _tell_damage(report)


@dataclass(frozen=True)
class _Run:
    """One call of the command: the linker, the processes, how many texts are expected."""

    work: Work
    n_workers: int
    n_expected: int | None

    @cached_property
    def graph(self) -> KnowledgeGraph:
        graph = open_graph(self.work.settings)
        if IDENTIFIERS in graph.manifest.sources:
            typer.echo(
                f"{self.work.settings.kg} has no names: its identifiers are taken; "
                "`kept kg build --labels` gives it some",
                err=True,
            )
        return graph

    def write(self, items: Iterator[Item], target: Path, *, resume: bool) -> None:
        key = linker_key(self.work.settings, self.graph)
        part = PartialOutput(target, key, resume=resume)
        n_done, rest = part.rest(items)
        n_texts = n_done + part.write(self._linked(rest, n_done))
        typer.echo(f"{n_texts} texts in {target}")

    def print_json(self, items: Iterator[Item]) -> None:
        for step in self._linked(items):
            for text in step:
                typer.echo(to_json(text).decode())

    def print_table(self, items: Iterator[Item], *, explain: bool) -> None:
        texts = [text for step in self._linked(items) for text in step]
        linker = self.work.linker(self.graph) if explain else None
        n_links = print_links(texts, self.graph, linker)
        typer.echo(f"{n_links} links in {len(texts)} texts; {_meaning(self.work.settings)}")

    def _linked(self, items: Iterator[Item], n_done: int = 0) -> Iterator[list[LinkedText]]:
        """Steps of linked texts behind a progress bar."""
        with _progress(Console(stderr=True)) as progress:
            task = progress.add_task("linking", total=self.n_expected, completed=n_done)
            for step in link_stream(items, self.work, self.graph, self.n_workers):
                yield step
                progress.update(task, advance=len(step))


def _items(
    source: str, format: str | None, report: DamageReport
) -> tuple[Iterator[Item], int | None]:
    """The items, and how many there may be."""
    path = Path(source)
    if len(source) <= 255 and (path.is_file() or (path.is_dir() and format in FOLDERS)):
        known = format_of(path, format)
        return read_items(path, known, report), count_lines(path, known)
    if format is not None or (path.suffix and " " not in source):
        raise LinkingError(f"{source} is not a file; text with spaces is taken as text")
    return iter([Item(LinkedText(source, ()), given=False)]), 1


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(*columns, *times, console=console, transient=True)


def _meaning(settings: LinkerSettings) -> str:
    if settings.decision is not None:
        return "confidence is calibrated"
    of = "the prior" if settings.method == "prior" else f"of method {settings.method}"
    return f"confidence is {of}, uncalibrated"


def _tell_damage(report: DamageReport) -> None:
    for rejection in report.rejections[:N_SHOWN]:
        typer.secho(f"left out: {rejection}", fg=typer.colors.YELLOW, err=True)
    if report.n_rejected > N_SHOWN:
        typer.secho(f"... and {report.n_rejected - N_SHOWN} more: {report.reasons}", err=True)
    for reason, n in report.skipped.items():
        typer.secho(f"left out: {n} {report.units}: {reason}", err=True)
