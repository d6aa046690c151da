"""`kept kg add`, `kept kg merge` and `kept kg query`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.kg.inputs import InputOptions, progress_bar, show_damage
from kept.apps.cli.kg.summary import AsJson, json_text
from kept.apps.cli.terminal import echo
from kept.help_texts import KG
from kg_loaders.counting import counted

GraphFolder = Annotated[Path, typer.Argument(help=KG)]


@dataclass(frozen=True, kw_only=True)
class AddOptions(InputOptions):
    """What `kept kg add` is given; a field is an option."""

    kg: GraphFolder
    sources: list[Path] | None = argument("Files of triples, as for `kept kg build`.", default=None)
    out: Path | None = option(
        "New folder for the larger graph (default: KG itself is replaced).", "--out", "-o"
    )
    force: bool = switch("Replace OUT if it is a graph.")


@takes(AddOptions)
def add(options: AddOptions) -> None:
    """Add entities, names and facts to a graph. The result equals a build from all sources.

    Models that were made with KG know its ids, not those of the new graph; see `kept extend`.

    Example: kept kg add kg/ new.tsv --labels new_labels.tsv -o kg2/
    """
    from kg_loaders import Source
    from kg_loaders.errors import SourceError
    from kg_loaders.growth.adding import add as add_to

    of_rdf = options.of_rdf()
    inputs = []
    for path in options.sources or ():
        is_rdf = bool(of_rdf) and Source(path, options.format).format_name == "rdf"
        inputs.append(Source(path, options.format, of_rdf if is_rdf else {}))
    inputs += options.text_sources()
    if not inputs:
        raise SourceError("nothing to add; name files of triples, or --labels, --aliases, ...")
    inputs = options.with_columns(inputs)
    options.require_no_quarantine("kept kg add")
    with progress_bar() as progress:
        added = add_to(
            options.kg,
            inputs,
            out=options.out,
            force=options.force,
            policy=options.damage,
            progress=progress,
            n_workers=options.workers,
            types_of_facts=options.types_of_facts,
        )
    if options.as_json:
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
    echo(f"{added.graph} in {options.out or options.kg}")


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """What the command is given; a field is an option."""

    kg: GraphFolder
    out: Path = required(
        "New .jsonl file for the pairs; with --decisions, new folder for the graph.", "--out", "-o"
    )
    decisions: Path | None = option(
        "The file of pairs, after you set `same` to true or false in each line."
    )
    least: float = option(
        "Smallest score at which a pair is proposed, from 0 to 1.", default=0.5, bounds=(0, 1)
    )
    force: bool = switch("Replace OUT if it exists.")


@takes(MergeOptions)
def merge(options: MergeOptions) -> None:
    """Find entities that may be the same, by names, types and facts, and merge those that are.

    Without --decisions a file of pairs is written. Set `same` in each line to true or false, and
    give the file as --decisions: each pair that is the same becomes one entity in a new graph.

    Example: kept kg merge kg/ -o pairs.jsonl; kept kg merge kg/ --decisions pairs.jsonl -o kg2/
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.growth import duplicates

    graph = KnowledgeGraph.open(options.kg)
    if options.decisions is None:
        proposals = [pair for pair in duplicates.propose(graph) if pair.score >= options.least]
        n = duplicates.write(proposals, options.out, force=options.force)
        echo(
            f"{n} pairs in {options.out}; write true or false for null, then give it by --decisions"
        )
        return
    pairs = duplicates.read(options.decisions, graph)
    result = duplicates.merged(graph, pairs)
    result.graph.save(options.out, force=options.force)
    n_open = sum(pair.same is None for pair in pairs)
    echo(
        f"{counted(result.n_merged, 'entities')} merged, {counted(result.n_loops, 'facts')} "
        f"between them left out, {counted(n_open, 'pairs')} undecided"
    )
    echo(f"{result.graph} in {options.out}")


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """What the command is given; a field is an option."""

    kg: GraphFolder
    sparql: str = argument("The query. The prefixes kg:, rdf:, rdfs: and skos: are defined.")
    as_json: AsJson = False
    seconds: int = option(
        "Largest processor time of the query, in seconds.", default=60, bounds=(1, 86_400)
    )
    rows: int = option(
        "Largest number of rows in the answer.", default=1_000_000, bounds=(1, 1_000_000_000)
    )
    memory: str = option("Largest memory of the query, such as 8G.", default="4G", metavar="BYTES")


@takes(QueryOptions)
def query(options: QueryOptions) -> None:
    """Query a graph in SPARQL 1.1: SELECT prints TSV, ASK yes or no, CONSTRUCT N-Triples.

    pyoxigraph answers, over the statements that the query can read. kg:Q90 is the entity Q90;
    texts are rdfs:label, skos:altLabel, rdfs:comment and rdf:type.

    Example: kept kg query kg/ 'SELECT ?o { kg:Q90 kg:P17 ?o } LIMIT 5'
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.budget import bytes_of
    from kg_loaders.rdf.sparql import QueryLimits, answer

    limits = QueryLimits(
        seconds=options.seconds, rows=options.rows, memory_bytes=bytes_of(options.memory)
    )
    result = answer(KnowledgeGraph.open(options.kg), options.sparql, limits=limits)
    if options.as_json:
        echo(result.json().decode())
    elif result.kind == "ASK":
        echo("yes" if result.is_true else "no")
    else:
        echo(result.data.decode().removesuffix("\n"))
