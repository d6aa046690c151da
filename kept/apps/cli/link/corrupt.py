"""`kept link corrupt`: remove and swap links, to measure what wrong links cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.terminal import echo
from kept.bounds import MAX_SEED
from kept.help_texts import FORCE_FILE


def corrupt(
    source: Annotated[Path, typer.Argument(metavar="IN", help="JSON lines of linked texts.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write JSON lines to this file.")],
    drop: Annotated[float, typer.Option(min=0, max=1, help="Share of the links to remove.")] = 0.0,
    swap: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the links to link wrongly.")
    ] = 0.0,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=MAX_SEED,
            help="Number from which all random choices follow. With the same seed, a higher "
            "share includes the links of a lower one.",
        ),
    ] = 0,
    kg: Annotated[
        Path | None,
        typer.Option(
            "--kg",
            help="Folder of the knowledge graph. Wrong entities are taken from it for links that "
            "have no other candidate.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=FORCE_FILE)] = False,
) -> None:
    """Remove a share of the links or make them wrong, to measure what linking errors cost a task.

    Example: kept link corrupt links.jsonl -o worse.jsonl --drop .1 --swap .2 --kg kg/
    """
    from entity_linking.annotations import read_jsonl, write_jsonl
    from entity_linking.corruption import corrupt as corrupt_links
    from kg_loaders import KnowledgeGraph
    from kg_loaders.damage import DamageReport
    from kg_loaders.disk.writing import refuse_file

    refuse_file(output, force=force, inputs=[source])
    graph = None if kg is None else KnowledgeGraph.open(kg)
    texts = list(read_jsonl(source, DamageReport()))
    corrupted, report = corrupt_links(texts, drop=drop, swap=swap, seed=seed, graph=graph)
    write_jsonl(corrupted, output, force=force, inputs=[source])
    echo(f"{report}; {len(corrupted)} texts in {output}")
