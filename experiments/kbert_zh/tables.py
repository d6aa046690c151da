"""Accuracies with intervals, differences with a paired test, and published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kept.evaluation.statistics import (
    bootstrap_interval,
    paired_bootstrap_interval,
    seed_interval,
    sign_flip_test,
)
from kept.lab.study.tables import Table
from kept.randomness import generator

Runs = Mapping[int, Mapping[str, Any]]
"""Results by seed."""


def summary(cells: Mapping[str, Runs], counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the tables show, as plain values."""
    pairs = [("true", other) for other in ("off", "shuffled") if {"true", other} <= cells.keys()]
    return {
        "counts": dict(counts),
        "accuracy": {kind: _accuracy(kind, runs) for kind, runs in cells.items()},
        "differences": {f"{one} - {other}": _difference(cells, one, other) for one, other in pairs},
    }


def _accuracy(kind: str, runs: Runs) -> dict[str, Any]:
    by_seed = {str(seed): run["accuracy"] for seed, run in runs.items()}
    if len(runs) > 1:
        interval = seed_interval([*by_seed.values()])
    else:
        correct = next(iter(runs.values()))["correct"]
        interval = bootstrap_interval(correct, generator=generator(0, "accuracy", kind))
    return {
        "mean": interval.estimate, "low": interval.low, "high": interval.high,
        "interval": interval.method, "by_seed": by_seed,
        "nodes_per_text": float(np.mean([run["nodes_per_text"] for run in runs.values()])),
        "seconds": float(np.mean([run["seconds"] for run in runs.values()])),
    }  # fmt: skip


def _difference(cells: Mapping[str, Runs], ours: str, theirs: str) -> dict[str, float]:
    """Return the difference on the same texts under the same seeds; a text's runs are one group."""
    seeds = [seed for seed in cells[ours] if seed in cells[theirs]]
    one, other = (
        np.concatenate([cells[kind][seed]["correct"] for seed in seeds]) for kind in (ours, theirs)
    )
    texts = np.tile(np.arange(len(one) // len(seeds)), len(seeds))
    interval = paired_bootstrap_interval(
        one, other, generator=generator(0, "difference", ours, theirs), clusters=texts
    )
    p = sign_flip_test(one, other, generator=generator(0, "test", ours, theirs), clusters=texts)
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high, "p": p}


def to_markdown(results: Mapping[str, Any], published: Mapping[str, Any]) -> str:
    """Return both tables and the published numbers."""
    rows = [
        [kind, f"{row['mean']:.4f}", f"{row['low']:.4f} to {row['high']:.4f} ({row['interval']})",
         ", ".join(f"{value:.4f}" for value in row["by_seed"].values()),
         f"{row['nodes_per_text']:.0f}", f"{row['seconds']:.0f}"]
        for kind, row in results["accuracy"].items()
    ]  # fmt: skip
    columns = "knowledge", "accuracy", "95 % interval", "by seed", "nodes a text", "s a run"
    differences = [
        [name, f"{row['mean']:+.4f}", f"{row['low']:+.4f} to {row['high']:+.4f}", f"{row['p']:.3f}"]
        for name, row in results["differences"].items()
    ]
    counts = ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}"
        for name, value in results["counts"].items()
    )
    theirs = [(name, *scores) for name, scores in published.items()]
    parts = (
        Table(columns, rows).compact(),
        Table(("difference", "accuracy", "95 % interval (texts)", "p"), differences).compact(),
        f"Counts: {counts}.",
        Table(("published (K-BERT's README)", "dev", "test"), theirs).compact(),
    )
    return "\n\n".join(parts) + "\n"
