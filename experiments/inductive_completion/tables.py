"""Tables of inductive completion: means over seeds, intervals, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.evaluation.statistics import (
    bootstrap_interval,
    paired_bootstrap_interval,
    sign_flip_test,
    verdict,
)
from kept.lab.completion.inductive_config import InductiveConfig
from kept.lab.study.store import RunRecord
from kept.lab.study.tables import with_interval
from kept.randomness import generator

COLUMNS = (
    "method", "seeds", "parameters", "MRR [95 %]", "over seeds", "Hits@1", "Hits@10",
    "sampled Hits@10 [95 %]", "sampled MRR", "CPU seconds",
)  # fmt: skip
Values = NDArray[np.float64]


def to_markdown(config: InductiveConfig, records: Sequence[RunRecord], folder: Path) -> str:
    """One section a split and part; published numbers stand below."""
    lines = [f"# Inductive completion: {config.name}", ""]
    for split in config.splits:
        mine = [r for r in records if r.experiment == f"{config.name}/{split}"]
        parts = dict.fromkeys(part for record in mine for part in record.scores["parts"])
        for part in parts:
            lines += _section(config, split, part, mine, folder)
        if mine:
            counts = mine[0].scores["counts"]
            lines += ["Counted:", "", *(f"- {why}: {n}" for why, n in counts.items()), ""]
    if config.published:
        lines += ["## Published", "", "| system | metric | value | where |", "|---|---|---:|---|"]
        lines += [f"| {p.system} | {p.metric} | {p.value} | {p.where} |" for p in config.published]
        lines += [""]
    return "\n".join([*lines, f"What differs: {config.differs}", "", *config.notes, ""])


def _section(
    config: InductiveConfig, split: str, part: str, records: Sequence[RunRecord], folder: Path
) -> list[str]:
    by_method = {
        method: [r for r in records if r.method == method and part in r.scores["parts"]]
        for method in config.methods
    }
    by_method = {method: runs for method, runs in by_method.items() if runs}
    first = next(iter(by_method.values()))[0].scores["parts"][part]
    lines = [
        f"## {split}, {part}: {first['n_triples']} triples, {first['n_entities']} entities",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---:|---:|---|---|---:|---:|---|---:|---:|",
    ]
    for method, runs in by_method.items():
        scores = [run.scores["parts"][part] for run in runs]
        rr, hits = (_mean(runs, f"{part}/{field}", folder) for field in ("rr", "hits"))
        triple = _mean(runs, f"{part}/triple", folder)
        seeds = [f["filtered"]["mrr"] for f in scores]
        span = f"{min(seeds):.3f}–{max(seeds):.3f}" if len(seeds) > 1 else "one"
        lines.append(
            f"| {method} | {len(runs)} | {runs[0].costs.get('n_parameters', '')} "
            f"| {_cell(rr, triple)} | {span} | {_over(scores, 'filtered', 'hits@1')} "
            f"| {_over(scores, 'filtered', 'hits@10')} | {_cell(hits, triple)} "
            f"| {_over(scores, 'sampled', 'mrr')} "
            f"| {np.mean([run.costs['cpu_seconds'] for run in runs]):.0f} |"
        )
    lines += ["", _conditions(first["filtered"]["conditions"], first["sampled"]["conditions"]), ""]
    lines += _steps(by_method)
    for ours, theirs in config.pairs:
        if ours in by_method and theirs in by_method:
            lines.append(_pair(by_method[ours], by_method[theirs], part, folder))
    return [*lines, ""]


def _conditions(full: dict[str, object], few: dict[str, object]) -> str:
    return (
        f"MRR, Hits@1, Hits@10: {full['n_scored']} of {full['n_asked']} questions, both sides, "
        f"candidates {full['candidates']} of the part, filter {full['filter']}, ties "
        f"{full['ties']}. Sampled: {few['candidates']}, {few['n_draws']} samples, the same filter "
        f"and ties, {few['n_short']} questions with fewer. Intervals: bootstrap over triples of "
        "the mean over seeds (and samples of candidates)."
    )


def _steps(by_method: Mapping[str, Sequence[RunRecord]]) -> list[str]:
    """How far the KEPLER runs were trained that methods read."""
    by_steps: dict[str, list[str]] = {}
    for method, runs in by_method.items():
        for state in (run.settings["kepler"] for run in runs[:1] if "kepler" in run.settings):
            steps = f"after step {state['step']} of {state['n_steps']}"
            by_steps.setdefault(steps, []).append(method)
    lines = [f"The KEPLER run was read {steps}: {', '.join(of)}." for steps, of in by_steps.items()]
    return [*lines, ""] if lines else []


def _pair(ours: list[RunRecord], theirs: list[RunRecord], part: str, folder: Path) -> str:
    triple = _mean(ours, f"{part}/triple", folder)
    parts = []
    for field, name in (("rr", "MRR"), ("hits", "sampled Hits@10")):
        one, other = (_mean(runs, f"{part}/{field}", folder) for runs in (ours, theirs))
        interval = paired_bootstrap_interval(
            one, other, clusters=triple, generator=generator(0, "pair", field)
        )
        p = sign_flip_test(one, other, clusters=triple, generator=generator(0, "flips", field))
        words = verdict(interval, p, ours=ours[0].method, theirs=theirs[0].method)
        parts.append(f"{name} {with_interval(interval, '+')}, p = {p:.4f}, {words}")
    return f"- {ours[0].method} against {theirs[0].method}: " + "; ".join(parts) + "."


def _mean(runs: Sequence[RunRecord], field: str, folder: Path) -> Values:
    """An array of the runs' questions, mean over seeds."""
    rows = [np.load(folder / f"{run.run}.npz")[field] for run in runs]
    return np.asarray(np.mean(rows, axis=0))


def _cell(values: Values, triple: Values) -> str:
    return with_interval(
        bootstrap_interval(values, clusters=triple, generator=generator(0, "table"))
    )


def _over(parts: Sequence[dict[str, dict[str, float]]], kind: str, metric: str) -> str:
    return f"{np.mean([part[kind][metric] for part in parts]):.3f}"
