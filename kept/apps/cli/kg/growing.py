"""`kept kg add`, `kept kg merge` and `kept kg query`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.kg.inputs import (
    Encoding,
    Header,
    Order,
    TextFiles,
    TypesOfFacts,
    progress_bar,
    show_damage,
    table_sources,
    text_option,
    text_sources,
)
from kept.apps.cli.kg.rdf_options import Base, ContextFiles, PredicateKinds, rdf_options
from kept.apps.cli.kg.summary import AsJson, json_text
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_THREADS
from kept.help_texts import KG
from kg_loaders.damage import DamagePolicy

GraphFolder = Annotated[Path, typer.Argument(help=KG)]


def add(
    kg: GraphFolder,
    sources: Annotated[
        list[Path] | None, typer.Argument(help="Files of triples, as for `kept kg build`.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="New folder for the larger graph (default: KG itself is replaced)."
        ),
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
    types_of_facts: TypesOfFacts = True,
    base: Base = None,
    names: PredicateKinds = None,
    context: ContextFiles = None,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="Number of processes that read .nt, .nq and .tsv files. It does not change the "
            "result.",
        ),
    ] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it is a graph.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add entities, names and facts to a graph. The result equals a build from all sources.

    Models that were made with KG know its ids, not those of the new graph; see `kept extend`.

    Example: kept kg add kg/ new.tsv --labels new_labels.tsv -o kg2/
    """
    from kg_loaders import Source
    from kg_loaders.errors import SourceError
    from kg_loaders.growth.adding import add as add_to

    of_rdf = rdf_options(base, names, context)
    inputs = []
    for path in sources or ():
        is_rdf = bool(of_rdf) and Source(path, format).format_name == "rdf"
        inputs.append(Source(path, format, of_rdf if is_rdf else {}))
    inputs += text_sources(labels, aliases, descriptions, types, relation_labels)
    if not inputs:
        raise SourceError("nothing to add; name files of triples, or --labels, --aliases, ...")
    inputs = table_sources(inputs, order, header, encoding)
    if damage is DamagePolicy.QUARANTINE:
        raise SourceError("kept kg add puts no lines aside; use --damage skip, or mend them")
    with progress_bar() as progress:
        added = add_to(
            kg, inputs, out=out, force=force, policy=damage, progress=progress, n_workers=workers,
            types_of_facts=types_of_facts,
        )  # fmt: skip
    if as_json:
        counts = {
            "n_new_entities": added.n_new_entities, "n_new_relations": added.n_new_relations,
            "content_hash": added.graph.content_hash, "load": added.report.counts(),
        }  # fmt: skip
        echo(json_text(counts))
        return
    for note in added.report.notes:
        echo(f"note: {note}", err=True)
    show_damage(added.report)
    echo(str(added.report))
    echo(f"{added.n_new_entities} new entities, {added.n_new_relations} new relations")
    echo(f"{added.graph} in {out or kg}")


def merge(
    kg: GraphFolder,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="New .jsonl file for the pairs; with --decisions, new folder for the graph.",
        ),
    ],
    decisions: Annotated[
        Path | None,
        typer.Option(help="The file of pairs, after you set `same` to true or false in each line."),
    ] = None,
    least: Annotated[
        float,
        typer.Option(min=0, max=1, help="Smallest score at which a pair is proposed, from 0 to 1."),
    ] = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Find entities that may be the same, by names, types and facts, and merge those that are.

    Without --decisions a file of pairs is written. Set `same` in each line to true or false, and
    give the file as --decisions: each pair that is the same becomes one entity in a new graph.

    Example: kept kg merge kg/ -o pairs.jsonl; kept kg merge kg/ --decisions pairs.jsonl -o kg2/
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.growth import duplicates

    graph = KnowledgeGraph.open(kg)
    if decisions is None:
        proposals = [pair for pair in duplicates.propose(graph) if pair.score >= least]
        n = duplicates.write(proposals, out, force=force)
        echo(f"{n} pairs in {out}; write true or false for null, then give it by --decisions")
        return
    pairs = duplicates.read(decisions, graph)
    result = duplicates.merged(graph, pairs)
    result.graph.save(out, force=force)
    n_open = sum(pair.same is None for pair in pairs)
    echo(
        f"{result.n_merged} entities merged, {result.n_loops} facts between them left out, "
        f"{n_open} pairs undecided"
    )
    echo(f"{result.graph} in {out}")


def query(
    kg: GraphFolder,
    sparql: Annotated[
        str, typer.Argument(help="The query. The prefixes kg:, rdf:, rdfs: and skos: are defined.")
    ],
    as_json: AsJson = False,
    seconds: Annotated[
        int,
        typer.Option(min=1, max=86_400, help="Largest processor time of the query, in seconds."),
    ] = 60,
    rows: Annotated[
        int, typer.Option(min=1, max=1_000_000_000, help="Largest number of rows in the answer.")
    ] = 1_000_000,
    memory: Annotated[
        str, typer.Option(metavar="BYTES", help="Largest memory of the query, such as 8G.")
    ] = "4G",
) -> None:
    """Query a graph in SPARQL 1.1: SELECT prints TSV, ASK yes or no, CONSTRUCT N-Triples.

    pyoxigraph answers, over the statements that the query can read. kg:Q90 is the entity Q90;
    texts are rdfs:label, skos:altLabel, rdfs:comment and rdf:type.

    Example: kept kg query kg/ 'SELECT ?o { kg:Q90 kg:P17 ?o } LIMIT 5'
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.budget import bytes_of
    from kg_loaders.rdf.sparql import QueryLimits, answer

    limits = QueryLimits(seconds=seconds, rows=rows, memory_bytes=bytes_of(memory))
    result = answer(KnowledgeGraph.open(kg), sparql, limits=limits)
    if as_json:
        echo(result.json().decode())
    elif result.kind == "ASK":
        echo("yes" if result.is_true else "no")
    else:
        echo(result.data.decode().removesuffix("\n"))
