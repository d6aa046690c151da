"""`kept kg literals`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.kg.inputs import show_damage
from kept.apps.cli.kg.rdf_options import Base, ContextFiles, PredicateKinds, rdf_options
from kept.apps.cli.terminal import echo
from kg_loaders.damage import OPTION, DamagePolicy


def literals(
    sources: Annotated[list[Path], typer.Argument(help="Files of RDF that the graph was made of.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A new .tsv file.")],
    format: Annotated[
        str | None, typer.Option(help="Of all SOURCES, where names do not tell: nt, ttl, ...")
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Of literals that have a language, the only ones.")
    ] = None,
    damage: Annotated[DamagePolicy, typer.Option(help="At a malformed line.")] = DamagePolicy.STOP,
    base: Base = None,
    names: PredicateKinds = None,
    context: ContextFiles = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file at OUT.")] = False,
) -> None:
    """Write the numbers, dates and other literals of RDF, which a graph does not hold.

    Lines of identifier, attribute and value; laid into a graph's folder as literals.tsv they are
    what `kept kgc train KG --literals` reads.

    Example: kept kg literals facts.nt -o kg/literals.tsv
    """
    from kg_loaders.damage import DamageReport
    from kg_loaders.disk.writing import refuse_file, whole_file
    from kg_loaders.errors import SourceError
    from kg_loaders.rdf.literals import read_literals

    if damage is DamagePolicy.QUARANTINE:
        raise SourceError("kept kg literals puts no lines aside; use --damage skip, or mend them")
    refuse_file(out, force=force, inputs=sources)
    options = rdf_options(base, names, context)
    n, n_left_out = 0, 0
    with whole_file(out, force=force) as part, part.open("w", encoding="utf-8") as sink:
        for source in sources:
            report = DamageReport(damage, remedy=OPTION)
            for entity, attribute, value in read_literals(
                source, report, format=format, languages=language or None, **options
            ):
                if any(border in value for border in "\t\n\r"):
                    n_left_out += 1
                    continue
                sink.write(f"{entity}\t{attribute}\t{value}\n")
                n += 1
            for note in report.notes:
                echo(f"note: {note}", err=True)
            show_damage(report)
    if n_left_out:
        echo(f"{n_left_out} values with a tab or a line break were left out", fg="yellow", err=True)
    echo(f"{n} literals in {out}")
