"""`kept link corrupt`: remove and swap links, to measure what wrong links cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import FORCE_FILE
from kg_loaders.counting import counted


@dataclass(frozen=True, kw_only=True)
class CorruptOptions:
    """What the command is given; a field is an option."""

    source: Path = argument("JSON lines of linked texts.", metavar="IN")
    output: Path = required("Write JSON lines to this file.", "--output", "-o")
    drop: float = option("Share of the links to remove.", default=0.0, bounds=(0, 1))
    swap: float = option("Share of the links to link wrongly.", default=0.0, bounds=(0, 1))
    seed: int = option(
        "Number from which all random choices follow. With the same seed, a higher "
        "share includes the links of a lower one.",
        default=0,
        bounds=(0, MAX_SEED),
    )
    kg: Path | None = option(
        "Folder of the knowledge graph. Wrong entities are taken from it for links that "
        "have no other candidate."
    )
    force: bool = switch(FORCE_FILE)


@takes(CorruptOptions)
def corrupt(options: CorruptOptions) -> None:
    """Remove a share of the links or make them wrong, to measure what linking errors cost a task.

    Example: kept link corrupt links.jsonl -o worse.jsonl --drop .1 --swap .2 --kg kg/
    """
    from entity_linking.annotations import read_jsonl, write_jsonl
    from entity_linking.corruption import corrupt as corrupt_links
    from kg_loaders import KnowledgeGraph
    from kg_loaders.damage import DamageReport
    from kg_loaders.disk.writing import refuse_file

    refuse_file(options.output, force=options.force, inputs=[options.source])
    graph = None if options.kg is None else KnowledgeGraph.open(options.kg)
    texts = list(read_jsonl(options.source, DamageReport()))
    corrupted, report = corrupt_links(
        texts, drop=options.drop, swap=options.swap, seed=options.seed, graph=graph
    )
    write_jsonl(corrupted, options.output, force=options.force, inputs=[options.source])
    echo(f"{report}; {counted(len(corrupted), 'texts')} in {options.output}")
