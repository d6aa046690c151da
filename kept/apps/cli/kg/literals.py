"""`kept kg literals`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.kg.inputs import show_damage
from kept.apps.cli.kg.rdf_options import RdfOptions
from kept.apps.cli.terminal import echo
from kg_loaders.damage import OPTION


@dataclass(frozen=True, kw_only=True)
class LiteralsOptions(RdfOptions):
    """What the command is given; a field is an option."""

    sources: list[Path] = argument("RDF files from which the graph was built.")
    out: Path = required("A new .tsv file.", "--out", "-o")
    format: str | None = option(
        "Format of all SOURCES, such as nt or ttl (default: by the name of each file)."
    )
    language: list[str] | None = option(
        "Keep literals with a language tag only in this language. May be repeated."
    )
    force: bool = switch("Replace OUT if it exists.")


@takes(LiteralsOptions)
def literals(options: LiteralsOptions) -> None:
    """Write the numbers, dates and other literals of RDF files; a graph folder has none.

    Each line has an identifier, an attribute and a value. Written to literals.tsv in the folder of
    the graph, they are read by `kept kgc train KG --literals`.

    Example: kept kg literals facts.nt -o kg/literals.tsv
    """
    from kg_loaders.damage import DamageReport
    from kg_loaders.disk.writing import refuse_file, whole_file
    from kg_loaders.rdf.literals import read_literals

    options.require_no_quarantine("kept kg literals")
    refuse_file(options.out, force=options.force, inputs=options.sources)
    of_rdf = options.of_rdf()
    n, n_left_out = 0, 0
    with (
        whole_file(options.out, force=options.force) as part,
        part.open("w", encoding="utf-8") as sink,
    ):
        for source in options.sources:
            report = DamageReport(options.damage, remedy=OPTION)
            for entity, attribute, value in read_literals(
                source, report, format=options.format, languages=options.language or None, **of_rdf
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
    echo(f"{n} literals in {options.out}")
