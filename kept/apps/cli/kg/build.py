"""`kept kg build`."""

from __future__ import annotations

import os
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
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to make.")],
    sources: Annotated[
        list[Path] | None, typer.Argument(help="Files of triples, or the folder of WordNet.")
    ] = None,
    labels: Annotated[TextFiles, text_option("names: id, label[, description]")] = None,
    aliases: Annotated[TextFiles, text_option("further names: id, alias[, count]")] = None,
    descriptions: Annotated[TextFiles, text_option("descriptions: id, description")] = None,
    types: Annotated[TextFiles, text_option("types: id, type")] = None,
    relation_labels: Annotated[
        TextFiles, text_option("names of relations: relation, label[, description]")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of all SOURCES, one of: {kg_loaders.build:FORMATS} (default: by the "
            "name of each file)."
        ),
    ] = None,
    order: Order = None,
    header: Header = "auto",
    encoding: Encoding = None,
    damage: Annotated[
        DamagePolicy, typer.Option(help="What to do at a line that is malformed.")
    ] = DamagePolicy.STOP,
    quarantine: Annotated[
        Path | None,
        typer.Option(
            help="New file for lines that are malformed; the option implies --damage quarantine."
        ),
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            help="Preferred language of names, such as en. May be repeated. From Wikidata dumps "
            "no other languages are read."
        ),
    ] = None,
    rdf_types: Annotated[
        RdfTypes | None,
        typer.Option(
            help="RDF: whether rdf:type makes triples, types of entities, or both (default: "
            "triples, and types if --types-of-facts is on)."
        ),
    ] = None,
    types_of_facts: TypesOfFacts = True,
    base: Base = None,
    names: PredicateKinds = None,
    context: ContextFiles = None,
    ranks: Annotated[Ranks, _wikidata("ranks of the statements to read")] = "truthy",
    qualifiers: Annotated[
        bool, _wikidata("also make nodes of statements that have qualifiers")
    ] = False,
    property: Annotated[Names, _wikidata("read only statements with this property", "P31")] = None,
    sitelink: Annotated[Names, _wikidata("read only items with this sitelink", "enwiki")] = None,
    instance_of: Annotated[
        Names, _wikidata("read only instances of this class or its subclasses (P31/P279*)", "Q5")
    ] = None,
    inner: Annotated[bool, _wikidata("keep only facts between items that are read")] = False,
    work: Annotated[
        Path | None, _wikidata("folder from which an interrupted build continues", "DIR")
    ] = None,
    sparql: Annotated[
        str | None,
        _sparql("Address of a SPARQL endpoint to read from, with --query", metavar="URL"),
    ] = None,
    query: Annotated[
        Path | None,
        _sparql("File with SELECT ?s ?p ?o ... ORDER BY ..., sent page by page", metavar="FILE"),
    ] = None,
    page_rows: Annotated[int, _sparql("Number of rows per page", min=1, max=1_000_000)] = 5_000,
    most_rows: Annotated[
        int, _sparql("Largest number of rows over all pages", min=1, max=10**12)
    ] = 100_000_000,
    pause: Annotated[float, _sparql("Seconds to wait between two pages", min=0, max=3_600)] = 1.0,
    contact: Annotated[
        str,
        _sparql(
            "Your address, sent with each request, so that the owner of the endpoint can reach you",
            metavar="MAIL",
        ),
    ] = "",
    licence: Annotated[
        str, typer.Option(help="Licence of the sources, as an SPDX identifier.")
    ] = "",
    only_forecast: Annotated[
        bool,
        typer.Option(
            "--forecast",
            help="Print how much time, memory and disk the build needs, and build nothing.",
        ),
    ] = False,
    beyond_memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="For graphs larger than memory: sort with DuckDB (extra `duckdb`) in files near "
            "OUT; the whole command takes this much memory, such as 2G (at least 224M), and pages "
            "of those files.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="Number of processes that read .nt, .nq and .tsv files. It does not change the "
            "result.",
        ),
    ] = 1,
    force: Annotated[bool, typer.Option(help="Replace OUT if it is a graph.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build a graph folder from files. If a file has an error, nothing is written.

    The format is guessed from each name: .tsv, .nt, .ttl, .jsonl, .spo, ..., also compressed as
    .gz, .bz2, .xz, .zst, or in a .zip. Name one file of several in a .zip as X.zip::MEMBER.

    Example: kept kg build triples.tsv --labels labels.tsv --aliases aliases.tsv -o kg/
    """
    from kg_loaders import Source, SourceError, load
    from kg_loaders.budget import bytes_of
    from kg_loaders.disk.columns import replaced
    from kg_loaders.disk.folder import GRAPH
    from kg_loaders.disk.writing import refuse_folder
    from kg_loaders.reading.parts import remove_parts

    of_format: dict[str, dict[str, Any]] = {
        "rdf": {
            **_options_set(types=rdf_types if rdf_types != "triple" else None),
            **rdf_options(base, names, context),
        },
        "wikidata": _options_set(
            ranks=ranks if ranks != "truthy" else None, qualifiers=qualifiers, properties=property,
            sitelinks=sitelink, instances_of=instance_of, inner=inner, work=work,
        ),
    }  # fmt: skip
    if not sources and sparql is None:
        raise SourceError("nothing to read; name files of triples, or an endpoint with --sparql")
    inputs = [Source(path, format, _options(path, format, of_format)) for path in sources or ()]
    pages = None
    if sparql is not None or query is not None:
        pages = work or Path(f"{out if out.name else os.path.abspath(out)}.pages")
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
    with counting("rows") as report:
        return fetch(Endpoint(url, *how), text, folder, report=report)


def _forecast(sources: list[Source], *, only: bool) -> None:
    """Print what the build will take, where it is large or that alone is asked for."""
    from kg_loaders.forecast import LARGE_BYTES, forecast, free_memory, size_of

    if not only and sum(size_of(source.path) for source in sources) < LARGE_BYTES:
        return
    needs, free = forecast(sources), free_memory()
    echo(f"forecast: {needs}", err=not only)
    if free is not None and needs.memory_bytes > free:
        echo(
            f"warning: {free / 1e9:.1f} GB of memory are free; --beyond-memory needs less",
            fg="yellow",
            err=True,
        )


def _options_set(**options: Any) -> dict[str, Any]:
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
            f"warning: {finding}; the columns may be in another order: see --order",
            fg="yellow",
            err=True,
        )
