"""`kept kg`: build, look at, check and export knowledge graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kept.cli.options import KeptCommand
from kept.cli.terminal import echo
from kg_loaders.damage import DamagePolicy, DamageReport

if TYPE_CHECKING:
    from kg_loaders import KnowledgeGraph

app = typer.Typer(no_args_is_help=True, help="Build, look at, check and export knowledge graphs.")

GraphFolder = Annotated[Path, typer.Argument(help="A folder made by `kept kg build`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TextFiles = list[Path] | None
RdfTypes = Literal["triple", "text", "both"]
N_SHOWN = 5


def _text_option(help: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(help=f"TSV: {help}.", metavar="FILE")
    return option


@app.command(cls=KeptCommand)
def build(
    sources: Annotated[list[Path], typer.Argument(help="Files of triples, or WordNet's folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")],
    labels: Annotated[TextFiles, _text_option("id, label[, description]")] = None,
    aliases: Annotated[TextFiles, _text_option("id, alias[, count]; an id may repeat")] = None,
    descriptions: Annotated[TextFiles, _text_option("id, description")] = None,
    types: Annotated[TextFiles, _text_option("id, type; an id may repeat")] = None,
    relation_labels: Annotated[TextFiles, _text_option("relation, label[, description]")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of all SOURCES, one of: {kg_loaders.build:FORMATS}.")
    ] = None,
    order: Annotated[
        str, typer.Option(help="Columns of TSV triples: h(ead), r(elation), t(ail).")
    ] = "hrt",
    damage: Annotated[DamagePolicy, typer.Option(help="At a malformed line.")] = DamagePolicy.STOP,
    quarantine: Annotated[
        Path | None, typer.Option(help="New file for rejected lines; implies --damage quarantine.")
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Preferred languages; of dumps, the only ones read.")
    ] = None,
    rdf_types: Annotated[
        RdfTypes, typer.Option(help="RDF: rdf:type makes triples, types of entities, or both.")
    ] = "triple",
    licence: Annotated[str, typer.Option(help="Of the sources, as an SPDX name.")] = "",
    force: Annotated[bool, typer.Option(help="Replace the graph at OUT.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read files into a graph folder; when something is wrong, nothing is written.

    The format is guessed from each name (.tsv, .nt, .ttl, .jsonl, .spo, ..., also .gz, .bz2, .zst).

    Example: kept kg build triples.tsv --labels labels.tsv --aliases aliases.tsv -o kg/
    """
    from kg_loaders import Source, load

    inputs = [Source(path, format, _options(path, format, order, rdf_types)) for path in sources]
    first_language = language[0] if language else "en"
    for files, columns, is_relation in (
        (labels, ("label", "description"), False),
        (aliases, ("alias", "count"), False),
        (descriptions, ("description",), False),
        (types, ("type",), False),
        (relation_labels, ("label", "description"), True),
    ):
        options = {"columns": columns, "language": first_language, "is_relation": is_relation}
        inputs += [Source(path, "texts", options) for path in files or ()]
    graph, report = load(
        inputs,
        out=out,
        policy=DamagePolicy.QUARANTINE if quarantine else damage,
        quarantine=quarantine,
        languages=language or None,
        licence=licence,
        force=force,
    )
    if as_json:
        echo(_json({"graph": _facts(graph), "load": report.counts()}))
        return
    _show_damage(report)
    echo(str(report))
    echo(f"{graph} in {out}")
    _warn_of_order(graph)


def _options(path: Path, format: str | None, order: str, rdf_types: str) -> dict[str, str]:
    """What the reader of the file takes of the options that only one format has."""
    from kg_loaders import Source

    options = {"tsv": {"order": order}, "rdf": {"types": rdf_types}}
    if format is None and (order, rdf_types) != ("hrt", "triple"):
        format = Source(path).format_name
    return options.get(format or "", {})


def _warn_of_order(graph: KnowledgeGraph) -> None:
    from kg_loaders.checks import labelled_as_entities

    finding = labelled_as_entities(graph)
    if finding.n * 2 > finding.n_asked:
        echo(
            f"warning: {finding}; the columns may stand in another order: see --order",
            fg="yellow",
            err=True,
        )


def _show_damage(report: DamageReport) -> None:
    for rejection in report.rejections[:N_SHOWN]:
        echo(f"rejected: {rejection}", fg="yellow", err=True)
    if report.n_rejected > N_SHOWN:
        echo(f"... and {report.n_rejected - N_SHOWN} more: {report.reasons}", err=True)
    for reason, n in report.skipped.items():
        echo(f"skipped: {reason}: {n}", err=True)


@app.command(cls=KeptCommand)
def info(kg: GraphFolder, as_json: AsJson = False) -> None:
    """Show what a graph holds, where it comes from, and its hashes.

    Example: kept kg info kg/
    """
    from kg_loaders import KnowledgeGraph

    facts = _facts(KnowledgeGraph.open(kg))
    if as_json:
        echo(_json(facts))
        return
    for name, value in facts.items():
        value_text = ", ".join(value) if isinstance(value, list | tuple) else value
        echo(f"{name:<18}{value_text}")


def _facts(graph: KnowledgeGraph) -> dict[str, object]:
    from kg_loaders import TextKind

    manifest = graph.manifest
    n_texts = {
        f"n_{kind.name.lower()}": int((graph.entity_texts.kinds == kind).sum()) for kind in TextKind
    }
    return {
        "n_entities": graph.n_entities,
        "n_relations": graph.n_relations,
        "n_triples": graph.n_triples,
        **n_texts,
        "n_relation_texts": len(graph.relation_texts),
        "languages": manifest.languages,
        "sources": manifest.sources,
        "licence": manifest.licence or "not stated",
        "content_hash": graph.content_hash,
        "id_space_hash": graph.id_space_hash,
        "format_version": manifest.format_version,
    }


@app.command(cls=KeptCommand)
def check(
    kg: GraphFolder,
    split: Annotated[
        list[Path] | None,
        typer.Option(help="A graph folder whose triples must not leak into KG (a test set)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify every byte of a graph, then report what may be wrong with it, by code.

    Exits with 1 when an error (E...) is found; warnings (W...) do not count.

    Example: kept kg check train/ --split test/
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.checks import check as check_graph
    from kg_loaders.checks import to_json

    graph = KnowledgeGraph.open(kg, verify=True)
    splits = {str(path): KnowledgeGraph.open(path, verify=True) for path in split or ()}
    findings = check_graph(graph, splits=splits)
    if as_json:
        echo(to_json(findings).decode())
    else:
        echo(f"{graph}: {len(findings)} findings")
        for finding in findings:
            echo(str(finding), fg="red" if finding.is_error else None)
    if any(finding.is_error for finding in findings):
        raise typer.Exit(1)


@app.command(name="export", cls=KeptCommand)
def export_(
    kg: GraphFolder,
    out: Annotated[Path, typer.Option("--out", "-o", help=".tsv, .parquet, .jsonl, .nt or .ttl")],
    base: Annotated[
        str | None, typer.Option(help="RDF: comes before names that are no IRIs.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file at OUT.")] = False,
) -> None:
    """Write triples (.tsv, .parquet), texts (.jsonl) or both (.nt, .ttl); the suffix decides.

    `kept kg build triples.tsv texts.jsonl` makes the same graph again.

    Example: kept kg export kg/ -o triples.tsv
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.export import BASE, export

    n_written = export(KnowledgeGraph.open(kg), out, base=base or BASE, force=force)
    echo(f"{n_written} written to {out}")


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
