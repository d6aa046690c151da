"""The page of the table: every graph, every scorer, what was not run, and published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.completion_table.record import Cell, Cells, Record
from kept.lab.completion.rankings import mean_metric
from kept.lab.study.tables import Table, with_interval

COLUMNS = (
    "scorer", "seeds", "MRR [95 %]", "Hits@1", "Hits@10", "MRR of 50", "Hits@10 of 50",
    "by what training saw", "CPU s",
)  # fmt: skip
RULE = "|---|---:|---|---:|---:|---:|---:|---|---:|"
PUBLISHED = "system", "metric", "value", "budget", "where"
Rows = Mapping[str, Sequence[Cell]]


def to_markdown(
    config: Mapping[str, Any], plans: Mapping[str, Any], cells: Cells, record: Record
) -> str:
    """Return all graphs; a scorer without a cell is named under its graph."""
    lines = [f"# {config['title']}", ""]
    for graph in config["graphs"]:
        lines += _graph(graph, plans, cells, record, config["pairs"])
    published = Table(PUBLISHED, [[row[name] for name in PUBLISHED] for row in config["published"]])
    lines += ["## Published", "", published.markdown("|---|---|---:|---|---|")]
    return "\n".join([*lines, f"What differs: {config['differs']}", ""])


def _graph(
    graph: str, plans: Mapping[str, Any], cells: Cells, record: Record,
    pairs: Sequence[tuple[str, str]],
) -> list[str]:  # fmt: skip
    every = {name: cells.get((graph, name), ()) for name in plans}
    lines = []
    for part in dict.fromkeys(part for of_scorer in every.values() for cell in of_scorer
                              for part in cell["parts"]):  # fmt: skip
        rows = {name: [cell for cell in of_scorer if part in cell["parts"]]
                for name, of_scorer in every.items()}  # fmt: skip
        rows = {name: of_scorer for name, of_scorer in rows.items() if of_scorer}
        first = next(iter(rows.values()))[0]["parts"][part]
        size = f"{first['n_triples']} triples, {first['n_entities']} entities"
        intervals = {name: record.interval(graph, part, name) for name in rows}
        table = Table(COLUMNS, [_row(name, rows[name], part, intervals[name]) for name in rows])
        lines += [f"## {graph}, {part}: {size}", "", table.markdown(RULE), *_classified(rows, part)]
        differences = [
            _difference(*pair, rows, record.interval(graph, part, *pair))
            for pair in pairs if {*pair} <= rows.keys()
        ]  # fmt: skip
        lines += [*differences, ""] if differences else []
    missing = [name for name, plan in plans.items()
               if graph in (plan.graphs or (graph,)) and not every[name]]  # fmt: skip
    return [*lines, f"Not run on {graph}: {', '.join(missing)}.", ""] if missing else lines


def _row(
    name: str, cells: Sequence[Cell], part: str, interval: Mapping[str, Any] | None
) -> list[object]:
    parts = [cell["parts"][part] for cell in cells]
    strata = parts[0]["strata"] or {}
    each = [one["filtered"]["mrr"] for one in parts]
    mrr = mean_metric(parts, "filtered", "mrr")
    if interval is not None:
        limits = with_interval(interval["interval"]).partition(" ")[2]
        mrr += f" {limits}{_of_seeds(interval['seeds'][name], cells)}"
    return [
        name, len(parts) if len(parts) < 2 else f"{len(parts)}: {min(each):.3f} to {max(each):.3f}",
        mrr, mean_metric(parts, "filtered", "hits@1"), mean_metric(parts, "filtered", "hits@10"),
        mean_metric(parts, "sampled", "mrr"), mean_metric(parts, "sampled", "hits@10"),
        ", ".join(f"{k} {v['mrr']:.3f} ({v['n_questions']})" for k, v in strata.items()),
        f"{np.mean([cell['cpu_seconds'] for cell in cells]):.0f}",
    ]  # fmt: skip


def _of_seeds(seeds: Sequence[int], cells: Sequence[Cell]) -> str:
    """Return the seeds of an interval where it is not over all; else nothing."""
    numbers = ", ".join(str(seed) for seed in seeds)
    return "" if len(seeds) == len(cells) else f" of seed{'s'[: len(seeds) - 1]} {numbers}"


def _classified(rows: Rows, part: str) -> list[str]:
    scores = {name: cells[0]["parts"][part].get("classification") for name, cells in rows.items()}
    lines = [
        f"- {name} separates true from false triples: accuracy {with_interval(score['accuracy'])}, "
        f"F1 {score['f1']['estimate']:.3f}."
        for name, score in scores.items()
        if score
    ]
    return [*lines, ""] if lines else []


def _difference(ours: str, theirs: str, rows: Rows, paired: Mapping[str, Any] | None) -> str:
    if paired is None:
        return f"- {ours} against {theirs}: not compared, no folder had the answers of both."
    one, other = (f"{name}{_of_seeds(paired['seeds'][name], rows[name])}"
                  for name in (ours, theirs))  # fmt: skip
    return (
        f"- {one} against {other}: MRR {with_interval(paired['interval'], '+')}, "
        f"p = {paired['p']:.4f}, {paired['verdict']}."
    )
