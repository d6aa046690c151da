"""`kept kg`: build, grow, ask, check and export knowledge graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.kg.build import build
from kept.apps.cli.kg.growing import GraphFolder, add, merge, query
from kept.apps.cli.kg.literals import literals
from kept.apps.cli.kg.summary import AsJson, json_text, summary_of
from kept.apps.cli.options import KeptCommand
from kept.apps.cli.terminal import echo

app = typer.Typer(
    no_args_is_help=True, help="Build, extend, query, check and export knowledge graphs."
)
for _command in (build, add, merge, query, literals):
    app.command(cls=KeptCommand)(_command)


@app.command(cls=KeptCommand)
def info(kg: GraphFolder, as_json: AsJson = False) -> None:
    """Show what a graph contains, where it comes from, and its hashes.

    Example: kept kg info kg/
    """
    from kg_loaders import KnowledgeGraph

    facts = summary_of(KnowledgeGraph.open(kg))
    if as_json:
        echo(json_text(facts))
        return
    for name, value in facts.items():
        value_text = ", ".join(value) if isinstance(value, list | tuple) else value
        echo(f"{name:<18}{value_text}")


@app.command(cls=KeptCommand)
def check(
    kg: GraphFolder,
    split: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of a test graph. Its triples must not be in KG."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that a graph is undamaged, then report errors (E...) and warnings (W...) in it.

    Exit code 1 if there is an error; warnings do not count.

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
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="File to write: .tsv, .parquet, .jsonl, .nt, .ttl, .graphml or .safetensors; with "
            "--to graphrag a folder.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            help="Program that will read it: networkx (GraphML), pyg or dgl (tensors), lightrag or "
            "graphrag (their own graphs). It replaces the suffix of OUT."
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="RDF: prefix that makes IRIs of identifiers that are none.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write triples (.tsv, .parquet), texts (.jsonl) or both (.nt, .ttl); the suffix decides.

    `kept kg build triples.tsv texts.jsonl` makes the same graph again. For other libraries:
    .graphml, and .safetensors with edge_index, edge_type and num_nodes. What --to lightrag and
    --to graphrag write, `kept kg build` reads as the same graph again.

    Example: kept kg export kg/ -o triples.tsv
    """
    from kg_loaders import KnowledgeGraph
    from kg_loaders.export import BASE, export

    n_written = export(KnowledgeGraph.open(kg), out, to=to, base=base or BASE, force=force)
    echo(f"{n_written} written to {out}")
