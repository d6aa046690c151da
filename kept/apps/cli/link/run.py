"""What `kept link FILE|TEXT` does: read, link behind a progress bar, write or print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
from entity_linking.names.identifiers import IDENTIFIERS, identifiers_note, nameless_note
from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.link.inputs import FOLDERS, count_lines, format_of, read_items
from kept.apps.cli.link.table import ambiguity, print_links
from kept.apps.cli.terminal import echo
from kept.linking.linkers import LinkerSettings, open_graph
from kept.linking.stream import Item, PartialOutput, Work, line_stream, link_stream
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.disk.kinds import file_or_text

N_SHOWN = 20
NOTHING_LINKED = (
    "no name of the graph was found: --case insensitive ignores case, --misspelt takes names with "
    "a typing error, and `kept kg build --aliases FILE` adds names"
)
_Linked = TypeVar("_Linked")


@dataclass(frozen=True)
class LinkRun:
    """One call of the command: the linker, the processes, how many texts are expected."""

    work: Work
    n_workers: int
    n_expected: int | None
    cluster: str | None = None

    @cached_property
    def graph(self) -> KnowledgeGraph:
        graph = open_graph(self.work.settings)
        by_identifiers = IDENTIFIERS in graph.manifest.sources
        if note := identifiers_note(graph) if by_identifiers else nameless_note(graph):
            echo(f"{self.work.settings.kg}: {note}", err=True)
        return graph

    def write(
        self,
        items: Iterator[Item],
        target: Path,
        *,
        resume: bool,
        force: bool,
        inputs: Sequence[str | Path],
    ) -> None:
        key = self.work.key(self.graph)
        with PartialOutput(target, key, resume=resume, force=force, inputs=inputs) as part:
            n_done, rest = part.rest(items)
            steps = line_stream(rest, self.work, self.graph, self.n_workers, self.cluster)
            n_texts = n_done + part.write(self._with_progress(steps, n_done))
        echo(f"{counted(n_texts, 'texts')} in {target}")

    def print_json(self, items: Iterator[Item]) -> None:
        steps = line_stream(items, self.work, self.graph, self.n_workers, self.cluster)
        for step in self._with_progress(steps):
            for line in step:
                echo(line[:-1].decode())

    def print_table(self, items: Iterator[Item], *, explain: bool) -> None:
        steps = link_stream(items, self.work, self.graph, self.n_workers, self.cluster)
        texts = [text for step in self._with_progress(steps) for text in step]
        linker = self.work.linker(self.graph) if explain else None
        n_links = print_links(texts, self.graph, linker)
        echo(
            f"{counted(n_links, 'links')} in {counted(len(texts), 'texts')}; "
            f"{_meaning(self.work.settings, self.graph)}"
        )
        if not n_links:
            echo(NOTHING_LINKED, fg="yellow", err=True)
        warning = ambiguity(texts, self.graph)
        if warning is not None:
            echo(warning, fg="yellow", err=True)

    def _with_progress(
        self, steps: Iterator[list[_Linked]], n_done: int = 0
    ) -> Iterator[list[_Linked]]:
        """The same steps, behind a progress bar."""
        with line_progress(TerminalConsole(stderr=True)) as progress:
            task = progress.add_task("linking", total=self.n_expected, completed=n_done)
            for step in steps:
                yield step
                progress.update(task, advance=len(step))


def items_of(
    source: str, format: str | None, report: DamageReport
) -> tuple[Iterator[Item], int | None]:
    """The items, and how many there may be."""
    path = file_or_text(source, folders=format in FOLDERS)
    if path is not None:
        known = format_of(path, format)
        return read_items(path, known, report), count_lines(path, known)
    if format is not None:
        raise LinkingError(f"{source} is not a file; without --format it is taken as text")
    return iter([Item(LinkedText(source, ()), is_linked=False)]), 1


def line_progress(console: TerminalConsole) -> Progress:
    """Return the bar of a command that goes through lines."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(*columns, *times, console=console, transient=True)


def _meaning(settings: LinkerSettings, graph: KnowledgeGraph) -> str:
    if settings.decision is not None:
        from entity_linking.calibration.fitting import load_decision

        fitted = load_decision(settings.decision, graph)
        if fitted.instead_of:
            return "by names + prior, which did better in calibration; confidence is calibrated"
        if fitted.decision.nil_from is not None and not fitted.decision.curve:
            return "nothing was fitted, which did better in calibration; confidence is uncalibrated"
        if fitted.above_linked is not None:
            return (
                f"confidence is calibrated for other kinds of text than {fitted.fitted_on}; adapt "
                f"it to these texts: kept link calibrate TEXTS --like {settings.decision}"
            )
        return f"confidence is calibrated on {fitted.fitted_on}"
    of = "by names alone" if settings.method == "prior" else f"of method {settings.method}"
    return f"confidence is {of}, uncalibrated"


def tell_damage(report: DamageReport) -> None:
    for rejection in report.rejections[:N_SHOWN]:
        echo(f"left out: {rejection}", fg="yellow", err=True)
    if report.n_rejected > N_SHOWN:
        echo(f"... and {report.n_rejected - N_SHOWN} more: {report.reasons}", err=True)
    for reason, n in report.skipped.items():
        echo(f"left out: {n} {report.units}: {reason}", err=True)
