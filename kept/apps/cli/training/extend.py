"""`kept extend`: the model of a run for a graph that grew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kept.apps.cli.terminal import echo

if TYPE_CHECKING:
    from kept.training.extending import Extension, TableGrowth


def extend(
    run: Annotated[Path, typer.Argument(help="A run of `kept pretrain` or `kept finetune`.")],
    kg: Annotated[Path, typer.Option("--kg", help="The graph that grew (`kept kg add`).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder of a run.")],
    before: Annotated[
        Path | None,
        typer.Option("--before", help="The run's own graph, if it is no longer where it was."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="How rows of new entities start, one of "
            "{kept.training.extending.starts:STARTS}; else the one that guesses old rows best."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an extended run at OUTPUT.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a run's model follow a graph that grew: old rows as they are, new ones added.

    Entities and relations of the run's graph must all be in KG. Nothing is trained: OUTPUT is where
    training goes on from (kept finetune --model OUTPUT), or is used as it is. OUTPUT/new_rows.jsonl
    lists what no training has seen.

    Example: kept kg add kg/ new.tsv -o kg2/; kept extend runs/colake --kg kg2/ -o runs/colake2
    """
    from kept.training.extending import extend as extend_run
    from kept.training.extending.extend import refuse_output, write_extension
    from kg_loaders import KnowledgeGraph

    refuse_output(output, [run, kg], force=force)
    was = None if before is None else KnowledgeGraph.open(before)
    done = extend_run(run, KnowledgeGraph.open(kg), before=was, start=start)
    write_extension(done, run, kg, output, force=force)
    if as_json:
        echo(json.dumps(done.as_json(), indent=1))
        return
    for line in _lines(done):
        echo(line)
    echo(f"model in {output}, for {done.graph}")


def _lines(done: Extension) -> list[str]:
    told = done.as_json()
    grown = (
        f"{told['n_new_entities']} new entities, {told['n_new_relations']} new relations, "
        f"{told['n_new_triples']} more facts"
    )
    lines = [grown, *(_line(table) for table in done.tables)]
    if not done.tables:
        lines.append("the method has no row for an entity or relation: it follows as it is")
    return lines


def _line(table: TableGrowth) -> str:
    starts = ", ".join(f"{n} from {name}" for name, n in table.starts.items()) or "none"
    line = f"{table.name}: {table.n_old} rows as they were, {table.n_new} new ({starts})"
    guesses = [f"{n} {v:.2f}" for n, v in table.likeness.items() if v is not None]
    return f"{line}; old rows guessed so: {', '.join(guesses)}" if guesses else line
