"""The page of the table: every graph, every scorer, what was not run, published numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.completion_table.cells import QUESTIONS, Plan, place_of
from kept.evaluation.statistics import (
    bootstrap_interval,
    paired_bootstrap_interval,
    sign_flip_test,
    verdict,
)
from kept.randomness import generator

COLUMNS = (
    "scorer", "seeds", "MRR [95 %]", "Hits@1", "Hits@10", "MRR of 50", "Hits@10 of 50",
    "by what training saw", "CPU s",
)  # fmt: skip
RULE = "|---|---:|---|---:|---:|---:|---:|---|---:|"
Cells = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]


def to_markdown(config: Mapping[str, Any], plans: Sequence[Plan], cells: Cells, run: Path) -> str:
    """All graphs; a scorer without a cell is named under its graph."""
    lines = [f"# {config['title']}", ""]
    for graph in config["graphs"]:
        lines += _graph(graph, plans, cells, run, config["pairs"])
    lines += ["## Published", "", "| system | metric | value | budget | where |",
              "|---|---|---:|---|---|"]  # fmt: skip
    for one in config["published"]:
        lines.append(" | ".join(["", *(str(one[k]) for k in
                     ("system", "metric", "value", "budget", "where")), ""]).strip())  # fmt: skip
    return "\n".join([*lines, "", f"What differs: {config['differs']}", ""])


def _graph(
    graph: str, plans: Sequence[Plan], cells: Cells, run: Path, pairs: Sequence[Sequence[str]]
) -> list[str]:
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
        lines += [_row(name, found, part, run) for name, found in rows.items()]
        lines += ["", *_classified(rows, part), *_pairs(pairs, rows, part, run)]
    if missing:
        lines += [f"Not run on {graph}: {', '.join(missing)}.", ""]
    return lines


def _row(name: str, cells: Sequence[Mapping[str, Any]], part: str, run: Path) -> str:
    parts = [cell["parts"][part] for cell in cells]
    values, triple = (_mean(cells, f"{part}/{field}", run) for field in ("rr", "triple"))
    interval = bootstrap_interval(values, clusters=triple, generator=generator(0, "table"))

    def over(kind: str, metric: str) -> str:
        return f"{np.mean([one[kind][metric] for one in parts]):.3f}"

    strata = parts[0]["strata"] or {}
    saw = ", ".join(f"{k} {v['mrr']:.3f} ({v['n_questions']})" for k, v in strata.items())
    seconds = np.mean([cell["cpu_seconds"] for cell in cells])
    return (
        f"| {name} | {len(cells)} | {interval.estimate:.3f} [{interval.low:.3f}, "
        f"{interval.high:.3f}] | {over('filtered', 'hits@1')} | {over('filtered', 'hits@10')} | "
        f"{over('sampled', 'mrr')} | {over('sampled', 'hits@10')} | {saw} | {seconds:.0f} |"
    )


def _classified(rows: Mapping[str, Sequence[Mapping[str, Any]]], part: str) -> list[str]:
    lines = []
    for name, cells in rows.items():
        told = cells[0]["parts"][part].get("classification")
        if told:
            accuracy, f1 = told["accuracy"], told["f1"]
            lines.append(
                f"- {name} tells true from false triples: accuracy {accuracy['estimate']:.3f} "
                f"[{accuracy['low']:.3f}, {accuracy['high']:.3f}], F1 {f1['estimate']:.3f}."
            )
    return [*lines, ""] if lines else []


def _pairs(
    pairs: Sequence[Sequence[str]], rows: Mapping[str, Sequence[Mapping[str, Any]]], part: str,
    run: Path,
) -> list[str]:  # fmt: skip
    lines = []
    for ours, theirs in pairs:
        if ours not in rows or theirs not in rows:
            continue
        triple = _mean(rows[ours], f"{part}/triple", run)
        one, other = (_mean(rows[name], f"{part}/rr", run) for name in (ours, theirs))
        interval = paired_bootstrap_interval(
            one, other, clusters=triple, generator=generator(0, "pair")
        )
        p = sign_flip_test(one, other, clusters=triple, generator=generator(0, "flips"))
        words = verdict(interval, p, ours=ours, theirs=theirs)
        lines.append(
            f"- {ours} against {theirs}: MRR {interval.estimate:+.3f} [{interval.low:+.3f}, "
            f"{interval.high:+.3f}], p = {p:.4f}, {words}."
        )
    return [*lines, ""] if lines else []


def _mean(cells: Sequence[Mapping[str, Any]], field: str, run: Path) -> NDArray[np.float64]:
    rows = []
    for cell in cells:
        place = place_of(run, cell["graph"], cell["scorer"], cell["seed"])
        rows.append(np.load(place / QUESTIONS)[field])
    return np.asarray(np.mean(rows, axis=0))
