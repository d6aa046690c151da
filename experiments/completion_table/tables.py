"""The page of the table: every graph, every scorer, what was not run, published numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.completion_table.cells import Plan
from experiments.completion_table.record import Cell, Cells, Record

COLUMNS = (
    "scorer", "seeds", "MRR [95 %]", "Hits@1", "Hits@10", "MRR of 50", "Hits@10 of 50",
    "by what training saw", "CPU s",
)  # fmt: skip
RULE = "|---|---:|---|---:|---:|---:|---:|---|---:|"


def to_markdown(
    config: Mapping[str, Any], plans: Sequence[Plan], cells: Cells, record: Record
) -> str:
    """All graphs; a scorer without a cell is named under its graph."""
    lines = [f"# {config['title']}", ""]
    for graph in config["graphs"]:
        lines += _graph(graph, plans, cells, record, config["pairs"])
    lines += ["## Published", "", "| system | metric | value | budget | where |",
              "|---|---|---:|---|---|"]  # fmt: skip
    for one in config["published"]:
        lines.append(" | ".join(["", *(str(one[k]) for k in
                     ("system", "metric", "value", "budget", "where")), ""]).strip())  # fmt: skip
    return "\n".join([*lines, "", f"What differs: {config['differs']}", ""])


def _graph(
    graph: str, plans: Sequence[Plan], cells: Cells, record: Record,
    pairs: Sequence[Sequence[str]],
) -> list[str]:  # fmt: skip
    asked = list(dict.fromkeys(
        part for plan in plans for cell in cells.get((graph, plan.name), ())
        for part in cell["parts"]
    ))  # fmt: skip
    planned = [plan for plan in plans if not plan.graphs or graph in plan.graphs]
    missing = [plan.name for plan in planned if not cells.get((graph, plan.name))]
    lines = []
    for part in asked:
        rows = {plan.name: [cell for cell in cells.get((graph, plan.name), ())
                            if part in cell["parts"]] for plan in plans}  # fmt: skip
        rows = {name: found for name, found in rows.items() if found}
        first = next(iter(rows.values()))[0]["parts"][part]
        size = f"{first['n_triples']} triples, {first['n_entities']} entities"
        lines += [f"## {graph}, {part}: {size}", "", f"| {' | '.join(COLUMNS)} |", RULE]
        lines += [
            _row(name, found, part, record.interval(graph, part, name))
            for name, found in rows.items()
        ]
        compared = [
            _compared(ours, theirs, rows, record.interval(graph, part, ours, theirs))
            for ours, theirs in pairs if ours in rows and theirs in rows
        ]  # fmt: skip
        lines += ["", *_classified(rows, part), *compared, *([""] if compared else [])]
    if missing:
        lines += [f"Not run on {graph}: {', '.join(missing)}.", ""]
    return lines


def _row(name: str, cells: Sequence[Cell], part: str, interval: Mapping[str, Any] | None) -> str:
    parts = [cell["parts"][part] for cell in cells]

    def over(kind: str, metric: str) -> str:
        return f"{np.mean([one[kind][metric] for one in parts]):.3f}"

    strata = parts[0]["strata"] or {}
    saw = ", ".join(f"{k} {v['mrr']:.3f} ({v['n_questions']})" for k, v in strata.items())
    seconds = np.mean([cell["cpu_seconds"] for cell in cells])
    mrr = over("filtered", "mrr") + _between(name, cells, interval)
    return (
        f"| {name} | {_seeds(parts)} | {mrr} | "
        f"{over('filtered', 'hits@1')} | {over('filtered', 'hits@10')} | "
        f"{over('sampled', 'mrr')} | {over('sampled', 'hits@10')} | {saw} | {seconds:.0f} |"
    )


def _seeds(parts: Sequence[Mapping[str, Any]]) -> str:
    """How many, and the lowest and highest MRR of one where there are several."""
    if len(parts) < 2:
        return str(len(parts))
    each = [part["filtered"]["mrr"] for part in parts]
    return f"{len(parts)}: {min(each):.3f} to {max(each):.3f}"


def _between(name: str, cells: Sequence[Cell], told: Mapping[str, Any] | None) -> str:
    """The interval, and its seeds where it is not over all; nothing where there is none."""
    if told is None:
        return ""
    low, high = told["interval"]["low"], told["interval"]["high"]
    return f" [{low:.3f}, {high:.3f}]{_of_seeds(told['seeds'][name], cells)}"


def _of_seeds(seeds: Sequence[int], cells: Sequence[Cell]) -> str:
    shown = ", ".join(str(seed) for seed in seeds)
    return "" if len(seeds) == len(cells) else f" of seed{'s'[: len(seeds) - 1]} {shown}"


def _classified(rows: Mapping[str, Sequence[Cell]], part: str) -> list[str]:
    lines = []
    for name, cells in rows.items():
        told = cells[0]["parts"][part].get("classification")
        if told:
            accuracy, f1 = told["accuracy"], told["f1"]
            lines.append(
                f"- {name} separates true from false triples: accuracy {accuracy['estimate']:.3f} "
                f"[{accuracy['low']:.3f}, {accuracy['high']:.3f}], F1 {f1['estimate']:.3f}."
            )
    return [*lines, ""] if lines else []


def _compared(
    ours: str, theirs: str, rows: Mapping[str, Sequence[Cell]], told: Mapping[str, Any] | None
) -> str:
    if told is None:
        return f"- {ours} against {theirs}: not compared, no folder had the answers of both."
    one, other = (f"{name}{_of_seeds(told['seeds'][name], rows[name])}" for name in (ours, theirs))
    over = told["interval"]
    return (
        f"- {one} against {other}: MRR {over['estimate']:+.3f} [{over['low']:+.3f}, "
        f"{over['high']:+.3f}], p = {told['p']:.4f}, {told['verdict']}."
    )
