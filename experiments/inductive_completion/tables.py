"""Tables of inductive completion: means over seeds, intervals, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kept.lab.completion.inductive_config import InductiveConfig
from kept.lab.completion.rankings import RowQuestions, mean_metric
from kept.lab.study.store import RunRecord
from kept.lab.study.tables import Table, with_interval

COLUMNS = (
    "method", "seeds", "parameters", "MRR [95 %]", "over seeds", "Hits@1", "Hits@10",
    "sampled Hits@10 [95 %]", "sampled MRR", "CPU seconds",
)  # fmt: skip
RULE = "|---|---:|---:|---|---|---:|---:|---|---:|---:|"
Rows = Mapping[str, Sequence[RunRecord]]


def to_markdown(config: InductiveConfig, records: Sequence[RunRecord], folder: Path) -> str:
    """Return one section a split and part, then published numbers."""
    lines = [f"# Inductive completion: {config.name}", ""]
    for split in config.splits:
        runs = [r for r in records if r.experiment == f"{config.name}/{split}"]
        for part in dict.fromkeys(part for run in runs for part in run.scores["parts"]):
            lines += _section(config, split, part, runs, folder)
        if runs:
            counts = runs[0].scores["counts"]
            lines += ["Counted:", "", *(f"- {why}: {n}" for why, n in counts.items()), ""]
    if config.published:
        rows = [(p.system, p.metric, p.value, p.where) for p in config.published]
        table = Table(("system", "metric", "value", "where"), rows)
        lines += ["## Published", "", table.markdown("|---|---|---:|---|")]
    return "\n".join([*lines, f"What differs: {config.differs}", "", *config.notes, ""])


def _section(
    config: InductiveConfig, split: str, part: str, runs: Sequence[RunRecord], folder: Path
) -> list[str]:
    every = {m: [r for r in runs if r.method == m and part in r.scores["parts"]]
             for m in config.methods}  # fmt: skip
    rows = {method: of_method for method, of_method in every.items() if of_method}
    questions = {
        method: RowQuestions(method, part, [folder / f"{run.run}.npz" for run in of_method])
        for method, of_method in rows.items()
    }
    first = next(iter(rows.values()))[0].scores["parts"][part]
    table = Table(COLUMNS, [_row(method, rows, questions) for method in rows])
    lines = [
        f"## {split}, {part}: {first['n_triples']} triples, {first['n_entities']} entities", "",
        table.markdown(RULE),
        _conditions(first["filtered"]["conditions"], first["sampled"]["conditions"]), "",
        *_steps(rows),
    ]  # fmt: skip
    pairs = [pair for pair in config.pairs if {*pair} <= rows.keys()]
    return [*lines, *(_pair(*(questions[name] for name in pair)) for pair in pairs), ""]


def _row(method: str, rows: Rows, questions: Mapping[str, RowQuestions]) -> list[object]:
    runs, part = rows[method], questions[method].part
    scores = [run.scores["parts"][part] for run in runs]
    seeds = [score["filtered"]["mrr"] for score in scores]
    mrr, hits = (with_interval(questions[method].interval(field)) for field in ("rr", "hits"))
    return [
        method, len(runs), runs[0].costs.get("n_parameters", ""), mrr,
        f"{min(seeds):.3f}–{max(seeds):.3f}" if len(seeds) > 1 else "one",
        mean_metric(scores, "filtered", "hits@1"), mean_metric(scores, "filtered", "hits@10"),
        hits, mean_metric(scores, "sampled", "mrr"),
        f"{np.mean([run.costs['cpu_seconds'] for run in runs]):.0f}",
    ]  # fmt: skip


def _conditions(full: dict[str, object], few: dict[str, object]) -> str:
    return (
        f"MRR, Hits@1, Hits@10: {full['n_scored']} of {full['n_asked']} questions, both sides, "
        f"candidates {full['candidates']} of the part, filter {full['filter']}, ties "
        f"{full['ties']}. Sampled: {few['candidates']}, {few['n_draws']} draws, the same filter "
        f"and ties, {few['n_short']} questions with fewer. Intervals: bootstrap over triples of "
        "the mean over seeds (and draws)."
    )


def _steps(rows: Rows) -> list[str]:
    """Return how far the KEPLER runs were trained that methods read."""
    by_steps: dict[str, list[str]] = {}
    for method, runs in rows.items():
        if (state := runs[0].settings.get("kepler")) is not None:
            steps = f"after step {state['step']} of {state['n_steps']}"
            by_steps.setdefault(steps, []).append(method)
    lines = [f"The KEPLER run was read {steps}: {', '.join(of)}." for steps, of in by_steps.items()]
    return [*lines, ""] if lines else []


def _pair(ours: RowQuestions, theirs: RowQuestions) -> str:
    parts = []
    for field, name in (("rr", "MRR"), ("hits", "sampled Hits@10")):
        interval, p, words = ours.against(theirs, field, field)
        parts.append(f"{name} {with_interval(interval, '+')}, p = {p:.4f}, {words}")
    return f"- {ours.name} against {theirs.name}: " + "; ".join(parts) + "."
