"""`kept extend`: the model of a run for a graph that grew."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kept.apps.cli.declared import argument, option, required, switch, takes
from kept.apps.cli.terminal import echo
from kg_loaders.counting import counted

if TYPE_CHECKING:
    from kept.training.extending import Extension, TableGrowth


@dataclass(frozen=True, kw_only=True)
class ExtendOptions:
    """What the command is given; a field is an option."""

    run: Path = argument("Folder of a run of `kept pretrain` or `kept finetune`.")
    kg: Path = required("Folder of the graph with additions, as `kept kg add` makes it.")
    output: Path = required("New folder for the extended run.", "--output", "-o")
    before: Path | None = option(
        "Folder of the graph that the run was trained on, if it has moved since."
    )
    start: str | None = option(
        "How the vectors of new entities start: one of "
        "{kept.training.extending.starts:STARTS} "
        "(default: the one that predicts the vectors of known entities best)."
    )
    force: bool = switch("Replace OUTPUT if it is an extended run.")
    as_json: bool = switch("Print JSON.", "--json")


@takes(ExtendOptions)
def extend(options: ExtendOptions) -> None:
    """Extend the model of a run to a graph with new entities: their vectors are added, others stay.

    All entities and relations of the run's graph must be in KG. Nothing is trained. Use OUTPUT as
    it is, or train it further (kept finetune --model OUTPUT). OUTPUT/new_rows.jsonl lists the
    vectors that no training has changed yet.

    Example: kept kg add kg/ new.tsv -o kg2/; kept extend runs/colake --kg kg2/ -o runs/colake2
    """
    from kept.training.extending import extend as extend_run
    from kept.training.extending.extend import refuse_output, write_extension
    from kg_loaders import KnowledgeGraph

    refuse_output(options.output, [options.run, options.kg], force=options.force)
    was = None if options.before is None else KnowledgeGraph.open(options.before)
    done = extend_run(options.run, KnowledgeGraph.open(options.kg), before=was, start=options.start)
    write_extension(done, options.run, options.kg, options.output, force=options.force)
    if options.as_json:
        echo(json.dumps(done.as_json(), indent=1))
        return
    for line in _lines(done):
        echo(line)
    echo(f"model in {options.output}, for {done.graph}")


def _lines(done: Extension) -> list[str]:
    fields = done.as_json()
    grown = (
        f"{fields['n_new_entities']} new entities, {fields['n_new_relations']} new relations, "
        f"{fields['n_new_triples']} more facts"
    )
    lines = [grown, *(_line(table) for table in done.tables)]
    if not done.tables:
        lines.append("the method has no row for an entity or relation: it follows as it is")
    return lines


def _line(table: TableGrowth) -> str:
    starts = ", ".join(f"{n} from {name}" for name, n in table.starts.items()) or "none"
    line = (
        f"{table.name}: {counted(table.n_old, 'rows')} as they were, {table.n_new} new ({starts})"
    )
    guesses = [f"{n} {v:.2f}" for n, v in table.likeness.items() if v is not None]
    return f"{line}; old rows guessed so: {', '.join(guesses)}" if guesses else line
