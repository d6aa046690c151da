"""`kept kg build`."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.kg.inputs import InputOptions, counting, progress_bar, show_damage
from kept.apps.cli.kg.summary import json_text, summary_of
from kept.apps.cli.terminal import echo
from kg_loaders.damage import DamagePolicy

if TYPE_CHECKING:
    from kg_loaders import KnowledgeGraph, Source


def _wikidata(help: str, metavar: str | None = None, default: Any = None) -> Any:
    panel = "Wikidata's JSON dump"
    return option(f"Wikidata: {help}.", metavar=metavar, default=default, rich_help_panel=panel)


def _sparql(help: str, **settings: Any) -> Any:
    return option(f"{help}.", rich_help_panel="A SPARQL endpoint", **settings)


@dataclass(frozen=True, kw_only=True)
class BuildOptions(InputOptions):
    """What `kept kg build` is given; a field is an option."""

    out: Path = required("Folder to make.", "--out", "-o")
    sources: list[Path] | None = argument(
        "Files of triples, or the folder of WordNet.", default=None
    )
    quarantine: Path | None = option(
        "New file for lines that are malformed; the option implies --damage quarantine."
    )
    language: list[str] | None = option(
        "Preferred language of names, such as en. May be repeated. From Wikidata dumps no other "
        "languages are read."
    )
    rdf_types: Literal["triple", "text", "both"] | None = option(
        "RDF: whether rdf:type makes triples, types of entities, or both (default: triples, and "
        "types if --types-of-facts is on)."
    )
    ranks: Literal["truthy", "all", "deprecated"] = _wikidata(
        "ranks of the statements to read", default="truthy"
    )
    qualifiers: bool = _wikidata(
        "also make nodes of statements that have qualifiers", default=False
    )
    property: list[str] | None = _wikidata("read only statements with this property", "P31")
    sitelink: list[str] | None = _wikidata("read only items with this sitelink", "enwiki")
    instance_of: list[str] | None = _wikidata(
        "read only instances of this class or its subclasses (P31/P279*)", "Q5"
    )
    inner: bool = _wikidata("keep only facts between items that are read", default=False)
    work: Path | None = _wikidata("folder from which an interrupted build continues", "DIR")
    sparql: str | None = _sparql(
        "Address of a SPARQL endpoint to read from, with --query", metavar="URL"
    )
    query: Path | None = _sparql(
        "File with SELECT ?s ?p ?o ... ORDER BY ..., sent page by page", metavar="FILE"
    )
    page_rows: int = _sparql("Number of rows per page", default=5_000, bounds=(1, 1_000_000))
    most_rows: int = _sparql(
        "Largest number of rows over all pages", default=100_000_000, bounds=(1, 10**12)
    )
    pause: float = _sparql("Seconds to wait between two pages", default=1.0, bounds=(0, 3_600))
    contact: str = _sparql(
        "Your address, sent with each request, so that the owner of the endpoint can reach you",
        metavar="MAIL",
        default="",
    )
    licence: str = option("Licence of the sources, as an SPDX identifier.", default="")
    only_forecast: bool = switch(
        "Print how much time, memory and disk the build needs, and build nothing.", "--forecast"
    )
    beyond_memory: str | None = option(
        "For graphs larger than memory: sort with DuckDB (extra `duckdb`) in files near OUT; the "
        "whole command takes this much memory, such as 2G (at least 224M), and pages of those "
        "files.",
        metavar="BYTES",
    )
    force: bool = option("Replace OUT if it is a graph.", default=False)

    def of_format(self) -> dict[str, dict[str, Any]]:
        """Return, by format, the options of its reader that were given."""
        rdf_types = self.rdf_types if self.rdf_types != "triple" else None
        wikidata = {
            "ranks": self.ranks if self.ranks != "truthy" else None,
            "qualifiers": self.qualifiers,
            "properties": self.property,
            "sitelinks": self.sitelink,
            "instances_of": self.instance_of,
            "inner": self.inner,
            "work": self.work,
        }
        return {
            "rdf": ({"types": rdf_types} if rdf_types else {}) | self.of_rdf(),
            "wikidata": {name: value for name, value in wikidata.items() if value},
        }

    def pages(self) -> Path | None:
        """Return the folder of the answers of an endpoint; None where none is read."""
        if self.sparql is None and self.query is None:
            return None
        return self.work or Path(
            f"{self.out if self.out.name else os.path.abspath(self.out)}.pages"
        )


@takes(BuildOptions)
def build(options: BuildOptions) -> None:
    """Build a graph folder from files. If a file has an error, nothing is written.

    The format is guessed from each name: .tsv, .nt, .ttl, .jsonl, .spo, ..., also compressed as
    .gz, .bz2, .xz, .zst, or in a .zip. Name one file of several in a .zip as X.zip::MEMBER.

    Example: kept kg build triples.tsv --labels labels.tsv --aliases aliases.tsv -o kg/
    """
    from kg_loaders.disk.writing import claim

    pages = options.pages()
    with nullcontext() if pages is None else claim(pages):  # nobody removes what is read here
        _build(options, pages)


def _build(options: BuildOptions, pages: Path | None) -> None:
    from kg_loaders import Source, SourceError, load
    from kg_loaders.budget import bytes_of
    from kg_loaders.disk.columns import replaced
    from kg_loaders.disk.folder import GRAPH
    from kg_loaders.disk.writing import refuse_folder
    from kg_loaders.reading.parts import remove_parts

    of_format = options.of_format()
    if not options.sources and options.sparql is None:
        raise SourceError("nothing to read; name files of triples, or an endpoint with --sparql")
    inputs = []
    for path in options.sources or ():
        settings = _settings(path, options.format, of_format)
        inputs.append(Source(path, options.format, settings))
    if pages is not None:
        refuse_folder(options.out, **replaced(GRAPH), force=options.force)
        inputs.append(Source(_fetched(options, pages), "rdf", of_format["rdf"]))
    inputs += options.text_sources(options.language[0] if options.language else "en")
    inputs = options.with_columns(inputs)
    _forecast(inputs, only=options.only_forecast)
    if options.only_forecast:
        return
    memory = options.beyond_memory
    with progress_bar() as progress:
        graph, report = load(
            inputs,
            out=options.out,
            policy=DamagePolicy.QUARANTINE if options.quarantine else options.damage,
            quarantine=options.quarantine,
            languages=options.language or None,
            licence=options.licence,
            force=options.force,
            progress=progress,
            beyond_memory=None if memory is None else bytes_of(memory),
            n_workers=options.workers,
            types_of_facts=options.types_of_facts and options.rdf_types is None,
        )
    if options.work is not None:
        remove_parts(options.work)
    if pages is not None:
        from kg_loaders.rdf.endpoint import remove_pages

        remove_pages(pages)
    for note in report.notes:
        echo(f"note: {note}", err=True)
    if options.as_json:
        echo(json_text({"graph": summary_of(graph), "load": report.counts()}))
        return
    show_damage(report)
    echo(str(report))
    echo(f"{graph} in {options.out}")
    _warn_of_order(graph)


def _fetched(options: BuildOptions, folder: Path) -> Path:
    """The answers of an endpoint as a file; where there is a terminal, with the rows so far."""
    from kg_loaders import SourceError
    from kg_loaders.rdf.endpoint import Endpoint, fetch

    url, query = options.sparql, options.query
    if url is None or query is None:
        raise SourceError("an endpoint needs a query, and a query an endpoint: --sparql, --query")
    try:
        text = query.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{query} cannot be read: {error}") from error
    endpoint = Endpoint(url, options.page_rows, options.pause, options.contact, options.most_rows)
    with counting("rows") as report:
        return fetch(endpoint, text, folder, report=report)


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


def _settings(path: Path, format: str | None, of: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the reader of the file takes of the options that only one format has."""
    from kg_loaders import Source

    return of.get(Source(path, format).format_name, {}) if any(of.values()) else {}


def _warn_of_order(graph: KnowledgeGraph) -> None:
    from kg_loaders.checks import labelled_as_entities

    finding = labelled_as_entities(graph)
    if finding.n * 2 > finding.n_asked:
        echo(
            f"warning: {finding}; the columns may be in another order: see --order",
            fg="yellow",
            err=True,
        )
