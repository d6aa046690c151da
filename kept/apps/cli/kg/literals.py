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
    sources: Annotated[
        list[Path], typer.Argument(help="RDF files from which the graph was built.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="A new .tsv file.")],
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of all SOURCES, such as nt or ttl (default: by the name of each file)."
        ),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep literals with a language tag only in this language. May be repeated."
        ),
    ] = None,
    damage: Annotated[
        DamagePolicy, typer.Option(help="What to do at a line that is malformed.")
    ] = DamagePolicy.STOP,
    base: Base = None,
    names: PredicateKinds = None,
    context: ContextFiles = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write the numbers, dates and other literals of RDF files; a graph folder has none.

    Each line has an identifier, an attribute and a value. Written to literals.tsv in the folder of
    the graph, they are read by `kept kgc train KG --literals`.

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
