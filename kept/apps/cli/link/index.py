"""`kept link index`: names and vectors of a graph on disk, for linking without building."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kept.apps.cli.declared import argument, option, switch, takes
from kept.apps.cli.options import LinkCase, local_or_hub
from kept.apps.cli.terminal import echo
from kept.help_texts import KG_OR_FILE
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from entity_linking.names.counts import SurfaceCount
    from kept.linking.index import LinkIndex
    from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """What the command is given; a field is an option."""

    kg: Path = argument(KG_OR_FILE)
    output: Path | None = option("Folder to make.", "--output", "-o", metavar="INDEX")
    add_to: Path | None = option(
        "Add the graph to this index instead of making a new one.", metavar="INDEX"
    )
    dense: str | None = option(
        "Also store a vector for each entity, made from its name and description: by a "
        "language model (minilm or DIR), or by an encoder in DIR that `kept link "
        "train-encoder` made.",
        callback=local_or_hub,
    )
    cross: Path | None = option(
        "Also store this cross-encoder, a folder made by `kept link train-encoder --cross`.",
        metavar="DIR",
    )
    fuzzy: bool = switch("Also store n-grams of names, to find misspelt ones.")
    counts: list[Path] | None = option(
        "JSON lines with gold links, from which to count how often a name means an "
        "entity. May be repeated."
    )
    case: LinkCase = None
    languages: list[str] | None = option(
        "Use names in this language (default: all). May be repeated.", "--language"
    )
    deprecated: bool = switch("Also link to terms that their source calls deprecated.")
    force: bool = switch("Replace OUTPUT if it is an index.")

    def has_settings(self) -> bool:
        """Return whether a part or a setting of a new index is given."""
        parts = (self.dense, self.cross, self.fuzzy)
        return any((*parts, self.case, self.languages, self.deprecated, self.force))


@takes(IndexOptions)
def index(options: IndexOptions) -> None:
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

    if (options.output is None) == (options.add_to is None):
        raise LinkingError("give -o INDEX to make an index, or --add-to INDEX to add to one")
    if options.add_to is not None and options.has_settings():
        raise LinkingError("--add-to keeps the parts and settings of the index; give none")
    graph = read_graph(str(options.kg), languages=options.languages)
    counted: list[SurfaceCount] = []
    for path in options.counts or ():
        counted += count_links(read_jsonl(path, DamageReport()))
    with Progress(console=TerminalConsole(stderr=True), transient=True) as progress:
        task = progress.add_task("vectors", total=None, visible=False)

        def advance(n_done: int, n_all: int) -> None:
            progress.update(task, completed=n_done, total=n_all, visible=True)

        if options.add_to is not None:
            new_index = LinkIndex.open(options.add_to).add(graph, counts=counted, progress=advance)
        else:
            assert options.output is not None
            new_index = LinkIndex.build(
                graph,
                options.output,
                counts=counted,
                case=cast(Case, options.case or "smart"),
                languages=options.languages,
                deprecated=options.deprecated,
                fuzzy=options.fuzzy,
                host=options.dense,
                cross=options.cross,
                force=options.force,
                progress=advance,
            )
    _print_index(new_index, graph)


def _print_index(new_index: LinkIndex, graph: KnowledgeGraph) -> None:
    from kept.linking.index import name_recall

    n_names, recall = name_recall(new_index.names, graph)
    shares = ", ".join(f"@{k} {share:.3f}" for k, share in recall.items())
    echo(
        f"{new_index.names}: recall of {counted(n_names, 'names')} {shares}; "
        f"{_size(new_index, 'names')}"
    )
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
