"""`kept kg build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kept.apps.cli.kg.inputs import (
    Encoding,
    Header,
    Order,
    TextFiles,
    TypesOfFacts,
    counting,
    progress_bar,
    show_damage,
    table_sources,
    text_option,
    text_sources,
)
from kept.apps.cli.kg.rdf_options import Base, ContextFiles, PredicateKinds, rdf_options
from kept.apps.cli.kg.summary import AsJson, json_text, summary_of
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_THREADS
from kg_loaders.damage import DamagePolicy

if TYPE_CHECKING:
    from kg_loaders import KnowledgeGraph, Source

RdfTypes = Literal["triple", "text", "both"]
Ranks = Literal["truthy", "all", "deprecated"]
Names = list[str] | None


def _wikidata(help: str, metavar: str | None = None) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        help=f"Wikidata: {help}.", metavar=metavar, rich_help_panel="Wikidata's JSON dump"
    )
    return option


def _sparql(help: str, **how: Any) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        help=f"{help}.", rich_help_panel="A SPARQL endpoint", **how
    )
    return option


def build(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")],
    sources: Annotated[
        list[Path] | None, typer.Argument(help="Files of triples, or WordNet's folder.")
    ] = None,
    labels: Annotated[TextFiles, text_option("id, label[, description]")] = None,
    aliases: Annotated[TextFiles, text_option("id, alias[, count]; an id may repeat")] = None,
    descriptions: Annotated[TextFiles, text_option("id, description")] = None,
    types: Annotated[TextFiles, text_option("id, type; an id may repeat")] = None,
    relation_labels: Annotated[TextFiles, text_option("relation, label[, description]")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of all SOURCES, one of: {kg_loaders.build:FORMATS}.")
    ] = None,
    order: Order = None,
    header: Header = "auto",
    encoding: Encoding = None,
    damage: Annotated[DamagePolicy, typer.Option(help="At a malformed line.")] = DamagePolicy.STOP,
    quarantine: Annotated[
        Path | None, typer.Option(help="New file for rejected lines; implies --damage quarantine.")
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Preferred languages; of dumps, the only ones read.")
    ] = None,
    rdf_types: Annotated[
        RdfTypes | None,
        typer.Option(
            help="RDF: rdf:type makes triples, types of entities, or both (default: triples, and "
            "types as --types-of-facts says)."
        ),
    ] = None,
    types_of_facts: TypesOfFacts = True,
    base: Base = None,
    names: PredicateKinds = None,
    context: ContextFiles = None,
    ranks: Annotated[Ranks, _wikidata("ranks of statements that are taken")] = "truthy",
    qualifiers: Annotated[bool, _wikidata("statements with qualifiers are nodes, too")] = False,
    property: Annotated[Names, _wikidata("only statements of these properties", "P31")] = None,
    sitelink: Annotated[Names, _wikidata("only items with one of these", "enwiki")] = None,
    instance_of: Annotated[
        Names, _wikidata("only instances of these classes or of subclasses (P31/P279*)", "Q5")
    ] = None,
    inner: Annotated[bool, _wikidata("only facts between items that are taken")] = False,
    work: Annotated[
        Path | None, _wikidata("folder from which a build that was cut goes on", "DIR")
    ] = None,
    sparql: Annotated[
        str | None, _sparql("Read the answers of this endpoint to --query", metavar="URL")
    ] = None,
    query: Annotated[
        Path | None,
        _sparql("File with SELECT ?s ?p ?o ... ORDER BY ..., asked page by page", metavar="FILE"),
    ] = None,
    page_rows: Annotated[int, _sparql("Rows asked for at once", min=1, max=1_000_000)] = 5_000,
    most_rows: Annotated[
        int, _sparql("Rows taken in all at most", min=1, max=10**12)
    ] = 100_000_000,
    pause: Annotated[float, _sparql("Seconds between two pages", min=0, max=3_600)] = 1.0,
    contact: Annotated[
        str, _sparql("Where the endpoint's owner can write to; sent along", metavar="MAIL")
    ] = "",
    licence: Annotated[str, typer.Option(help="Of the sources, as an SPDX name.")] = "",
    only_forecast: Annotated[
        bool, typer.Option("--forecast", help="Say what the build will take, and build nothing.")
    ] = False,
    beyond_memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Sort by DuckDB (extra duckdb) in so much memory, as 2G, and on the disk by OUT.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_THREADS, help="Workers that read .nt, .nq and .tsv; the same graph."
        ),
    ] = 1,
    force: Annotated[bool, typer.Option(help="Replace the graph at OUT.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read files into a graph folder; when something is wrong, nothing is written.

    The format is guessed from each name (.tsv, .nt, .ttl, .jsonl, .spo, ..., also .gz, .bz2, .xz,
    .zst, and of the file in a .zip; of several X.zip::MEMBER).

    Example: kept kg build triples.tsv --labels labels.tsv --aliases aliases.tsv -o kg/
    """
    from kg_loaders import Source, SourceError, load
    from kg_loaders.disk.columns import replaced
    from kg_loaders.disk.folder import GRAPH
    from kg_loaders.disk.writing import refuse_folder
    from kg_loaders.reading.budget import bytes_of
    from kg_loaders.reading.parts import remove_parts

    of_format: dict[str, dict[str, Any]] = {
        "rdf": {
            **_given(types=rdf_types if rdf_types != "triple" else None),
            **rdf_options(base, names, context),
        },
        "wikidata": _given(
            ranks=ranks if ranks != "truthy" else None, qualifiers=qualifiers, properties=property,
            sitelinks=sitelink, instances_of=instance_of, inner=inner, work=work,
        ),
    }  # fmt: skip
    if not sources and sparql is None:
        raise SourceError("nothing to read; name files of triples, or an endpoint with --sparql")
    inputs = [Source(path, format, _options(path, format, of_format)) for path in sources or ()]
    pages = None
    if sparql is not None or query is not None:
        pages = work or out.with_name(f"{out.name}.pages")
        refuse_folder(out, **replaced(GRAPH), force=force)
        how = (page_rows, pause, contact, most_rows)
        answers = _fetched(sparql, query, pages, *how)
        inputs.append(Source(answers, "rdf", of_format["rdf"]))
    inputs += text_sources(
        labels, aliases, descriptions, types, relation_labels, language[0] if language else "en"
    )
    inputs = table_sources(inputs, order, header, encoding)
    _forecast(inputs, only=only_forecast)
    if only_forecast:
        return
    with progress_bar() as progress:
        graph, report = load(
            inputs,
            out=out,
            policy=DamagePolicy.QUARANTINE if quarantine else damage,
            quarantine=quarantine,
            languages=language or None,
            licence=licence,
            force=force,
            progress=progress,
            beyond_memory=None if beyond_memory is None else bytes_of(beyond_memory),
            n_workers=workers,
            types_of_facts=types_of_facts and rdf_types is None,
        )
    if work is not None:
        remove_parts(work)
    if pages is not None:
        from kg_loaders.rdf.endpoint import remove_pages

        remove_pages(pages)
    for note in report.notes:
        echo(f"note: {note}", err=True)
    if as_json:
        echo(json_text({"graph": summary_of(graph), "load": report.counts()}))
        return
    show_damage(report)
    echo(str(report))
    echo(f"{graph} in {out}")
    _warn_of_order(graph)


def _fetched(url: str | None, query: Path | None, folder: Path, *how: Any) -> Path:
    """The answers of an endpoint as a file; where there is a terminal, with the rows so far."""
    from kg_loaders import SourceError
    from kg_loaders.rdf.endpoint import Endpoint, fetch

    if url is None or query is None:
        raise SourceError("an endpoint needs a query, and a query an endpoint: --sparql, --query")
    try:
        text = query.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{query} cannot be read: {error}") from error
    with counting("rows") as tell:
        return fetch(Endpoint(url, *how), text, folder, tell=tell)


def _forecast(sources: list[Source], *, only: bool) -> None:
    """Print what the build will take, where it is large or that alone is asked for."""
    from kg_loaders.large.forecast import LARGE_BYTES, forecast, free_memory, size_of

    if not only and sum(size_of(source.path) for source in sources) < LARGE_BYTES:
        return
    found, free = forecast(sources), free_memory()
    echo(f"forecast: {found}", err=not only)
    if free is not None and found.memory_bytes > free:
        echo(
            f"warning: {free / 1e9:.1f} GB of memory are free; --beyond-memory needs less",
            fg="yellow",
            err=True,
        )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


def _options(path: Path, format: str | None, options: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the reader of the file takes of the options that only one format has."""
    from kg_loaders import Source

    if not any(options.values()):
        return {}
    return options.get(Source(path, format).format_name, {})


def _warn_of_order(graph: KnowledgeGraph) -> None:
    from kg_loaders.checks import labelled_as_entities

    finding = labelled_as_entities(graph)
    if finding.n * 2 > finding.n_asked:
        echo(
            f"warning: {finding}; the columns may stand in another order: see --order",
            fg="yellow",
            err=True,
        )
