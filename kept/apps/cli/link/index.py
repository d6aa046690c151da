"""`kept link index`: names and vectors of a graph on disk, for linking without building."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.help_texts import KG_OR_FILE

if TYPE_CHECKING:
    from kept.linking.index import LinkIndex
    from kg_loaders import KnowledgeGraph


def index(
    kg: Annotated[Path, typer.Argument(help=KG_OR_FILE)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to make.", metavar="INDEX")
    ] = None,
    add_to: Annotated[
        Path | None,
        typer.Option(
            help="Add the graph to this index instead of making a new one.", metavar="INDEX"
        ),
    ] = None,
    dense: Annotated[
        str | None,
        typer.Option(
            callback=local_or_hub,
            help="Also store a vector for each entity, made from its name and description: by a "
            "language model (minilm or DIR), or by an encoder in DIR that `kept link "
            "train-encoder` made.",
        ),
    ] = None,
    cross: Annotated[
        Path | None,
        typer.Option(
            help="Also store this cross-encoder, a folder made by `kept link train-encoder "
            "--cross`.",
            metavar="DIR",
        ),
    ] = None,
    fuzzy: Annotated[
        bool, typer.Option("--fuzzy", help="Also store n-grams of names, to find misspelt ones.")
    ] = False,
    counts: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSON lines with gold links, from which to count how often a name means an "
            "entity. May be repeated."
        ),
    ] = None,
    case: LinkCase = None,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Use names in this language (default: all). May be repeated."),
    ] = None,
    deprecated: Annotated[
        bool,
        typer.Option("--deprecated", help="Also link to terms that their source calls deprecated."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUTPUT if it is an index.")
    ] = False,
) -> None:
    """Build an index for `kept link --index`, or add another graph to one.

    Example: kept link index kg/ -o index/ --dense minilm --fuzzy
    """
    from rich.progress import Progress

    from entity_linking.annotations import read_jsonl
    from entity_linking.errors import LinkingError
    from entity_linking.names import count_links
    from entity_linking.names.rules.case import Case
    from kept.apps.cli.console import TerminalConsole
    from kept.linking.graphs import read_graph
    from kept.linking.index import LinkIndex
    from kg_loaders.damage import DamageReport

    if (output is None) == (add_to is None):
        raise LinkingError("give -o INDEX to make an index, or --add-to INDEX to add to one")
    if add_to is not None and any((dense, cross, fuzzy, case, language, deprecated, force)):
        raise LinkingError("--add-to keeps the parts and settings of the index; give none")
    graph = read_graph(str(kg), languages=language)
    counted = [
        count for path in counts or () for count in count_links(read_jsonl(path, DamageReport()))
    ]
    with Progress(console=TerminalConsole(stderr=True), transient=True) as progress:
        task = progress.add_task("vectors", total=None, visible=False)

        def advance(n_done: int, n_all: int) -> None:
            progress.update(task, completed=n_done, total=n_all, visible=True)

        if add_to is not None:
            new_index = LinkIndex.open(add_to).add(graph, counts=counted, progress=advance)
        else:
            assert output is not None
            new_index = LinkIndex.build(
                graph,
                output,
                counts=counted,
                case=cast(Case, case or "smart"),
                languages=language,
                deprecated=deprecated,
                fuzzy=fuzzy,
                host=dense,
                cross=cross,
                force=force,
                progress=advance,
            )
    _print_index(new_index, graph)


def _print_index(new_index: LinkIndex, graph: KnowledgeGraph) -> None:
    from kept.linking.index import name_recall

    n_names, recall = name_recall(new_index.names, graph)
    shares = ", ".join(f"@{k} {share:.3f}" for k, share in recall.items())
    echo(f"{new_index.names}: recall of {n_names} names {shares}; {_size(new_index, 'names')}")
    if new_index.fuzzy is not None:
        echo(f"{new_index.fuzzy}: {_size(new_index, 'fuzzy')}")
    if new_index.dense is not None:
        echo(f"{new_index.dense.report()}; {_size(new_index, 'dense')}")
    if new_index.manifest.has_cross:
        echo(f"{new_index.cross(graph)}; {_size(new_index, 'cross')}")
    echo(f"{_mib(new_index.folder)} in {new_index.folder}, memory-mapped")


def _size(new_index: LinkIndex, part: str) -> str:
    return f"{_mib(new_index.folder / part)} on disk"


def _mib(folder: Path) -> str:
    from kept.linking.index import bytes_of

    return f"{bytes_of(folder) / 2**20:.1f} MiB"
