"""`kept link`: find the entities of a knowledge graph in text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from entity_linking.annotations import to_json, write_jsonl
from entity_linking.dictionary import Case, DictionaryLinker
from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText
from kg_loaders import KnowledgeGraph
from kg_loaders.damage import DamageReport
from kg_loaders.lines import read_lines

LINES_PER_STEP = 4096


def link(
    source: Annotated[str, typer.Argument(metavar="FILE|TEXT", help="A file, one text a line.")],
    kg: Annotated[Path, typer.Option("--kg", help="Folder of the knowledge graph.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, no table.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show all candidates and the names behind them.")
    ] = False,
    case: Annotated[str, typer.Option(help="smart, sensitive or insensitive.")] = "smart",
    min_prior: Annotated[float, typer.Option(help="Drop candidates with a lower prior.")] = 0.0,
    nil_below: Annotated[float, typer.Option(help="NIL when the best prior is lower.")] = 0.0,
    min_length: Annotated[int, typer.Option(help="Shortest name, in characters.")] = 2,
    language: Annotated[
        list[str] | None, typer.Option(help="Use names in this language; may be repeated.")
    ] = None,
) -> None:
    """Link text by the labels and aliases of a graph: no training, no network."""
    errors = Console(stderr=True)
    if case not in get_args(Case):
        raise LinkingError(f"--case is {case!r}; choose one of {', '.join(get_args(Case))}")
    graph = KnowledgeGraph.open(kg)
    linker = DictionaryLinker(
        graph,
        case=cast(Case, case),
        min_prior=min_prior,
        nil_below=nil_below,
        min_length=min_length,
        languages=language,
    )
    linked = _link(linker, source, errors)
    if output is not None:
        typer.echo(f"{write_jsonl(linked, output)} texts in {output}")
    elif as_json:
        for text in linked:
            typer.echo(to_json(text).decode())
    else:
        _print(list(linked), graph, linker if explain else None)


def _link(linker: DictionaryLinker, source: str, console: Console) -> Iterator[LinkedText]:
    path = Path(source)
    if len(source) > 255 or not path.is_file():
        if path.suffix and " " not in source:
            raise LinkingError(f"{source} is not a file; text with spaces is taken as text")
        yield from linker.link([source])
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"linking {path.name}", total=path.stat().st_size or None)
        numbers: list[int] = []
        texts: list[str] = []
        for line, offset, raw in read_lines(path, DamageReport()):
            if not raw.strip():
                continue
            numbers.append(line)
            texts.append(raw.decode())
            if len(texts) == LINES_PER_STEP:
                yield from _numbered(linker.link(texts), numbers)
                numbers, texts = [], []
                progress.update(task, completed=offset)
        yield from _numbered(linker.link(texts), numbers)


def _numbered(texts: list[LinkedText], numbers: list[int]) -> Iterator[LinkedText]:
    for text, number in zip(texts, numbers, strict=True):
        yield LinkedText(text.text, text.links, str(number))


def _print(
    texts: list[LinkedText], graph: KnowledgeGraph, explained_by: DictionaryLinker | None
) -> None:
    console = Console()
    n_links = sum(len(text.links) for text in texts)
    if n_links:
        table = Table(box=None, pad_edge=False)
        for name in ("line", "start", "end", "mention", "entity", "label", "confidence"):
            table.add_column(name, overflow="fold")
        for text in texts:
            for found in text.links:
                _add_rows(table, text, found, graph, explained_by)
        console.print(table)
    console.print(f"{n_links} links in {len(texts)} texts; confidence is the prior, uncalibrated")


def _add_rows(
    table: Table,
    text: LinkedText,
    found: Link,
    graph: KnowledgeGraph,
    explained_by: DictionaryLinker | None,
) -> None:
    start, end = found.mention.start, found.mention.end
    surface = text.text[start:end]
    label = graph.label(graph.entities.id(found.entity)) if found.entity else ""
    place = (text.id or "1", str(start), str(end), surface)
    row = (*place, found.entity or "NIL", label, f"{found.confidence:.3f}")
    table.add_row(*map(escape, row))
    if explained_by is None:
        return
    entries = explained_by.entries(surface)
    for candidate in found.candidates:
        reasons = ", ".join(
            f"{'label' if entry.is_label else 'alias'} {entry.surface!r}"
            + (f" seen {entry.frequency}" if entry.frequency else "")
            for entry in entries
            if entry.entity == candidate.entity
        )
        entity = graph.entities.id(candidate.entity)
        about = graph.description(entity) or graph.label(entity)
        shown = ("", "", "", f"  {reasons}", candidate.entity, about, f"{candidate.prior:.3f}")
        table.add_row(*map(escape, shown), style="dim")
