"""Accuracies with intervals, differences with a paired test, published numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kept.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    paired_bootstrap_interval,
    seed_interval,
    sign_flip_test,
)
from kept.randomness import generator

Result = Mapping[str, Any]


def summary(results: Sequence[Result], counts: Mapping[str, Any]) -> dict[str, Any]:
    """What the tables show, as plain values."""
    kinds = list(dict.fromkeys(result["knowledge"] for result in results))
    rows = {kind: _accuracy([r for r in results if r["knowledge"] == kind]) for kind in kinds}
    pairs = [("true", other) for other in ("off", "shuffled") if {"true", other} <= set(kinds)]
    differences = {f"{a} - {b}": _difference(results, a, b) for a, b in pairs}
    return {"counts": dict(counts), "accuracy": rows, "differences": differences}


def _accuracy(results: Sequence[Result]) -> dict[str, Any]:
    values = [result["accuracy"] for result in results]
    interval: Interval | None = None
    if len(values) > 1:
        interval = seed_interval(values)
    else:
        draws = generator(0, "accuracy", results[0]["knowledge"])
        interval = bootstrap_interval(results[0]["correct"], generator=draws)
    return {
        "mean": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "interval": interval.method,
        "by_seed": {str(result["seed"]): result["accuracy"] for result in results},
        "nodes_per_text": float(np.mean([result["nodes_per_text"] for result in results])),
        "seconds": float(np.mean([result["seconds"] for result in results])),
    }


def _difference(results: Sequence[Result], ours: str, theirs: str) -> dict[str, float]:
    """The same texts under the same seeds; a text's runs are drawn together."""
    by_seed = {
        kind: {r["seed"]: r["correct"] for r in results if r["knowledge"] == kind}
        for kind in (ours, theirs)
    }
    seeds = [seed for seed in by_seed[ours] if seed in by_seed[theirs]]
    a, b = (np.concatenate([by_seed[kind][s] for s in seeds]) for kind in (ours, theirs))
    texts = np.tile(np.arange(len(a) // len(seeds)), len(seeds))
    interval = paired_bootstrap_interval(
        a, b, generator=generator(0, "difference", ours, theirs), clusters=texts
    )
    p = sign_flip_test(a, b, generator=generator(0, "test", ours, theirs), clusters=texts)
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high, "p": p}


def to_markdown(results: Mapping[str, Any], published: Mapping[str, Any]) -> str:
    """Both tables and the published numbers."""
    lines = ["| knowledge | accuracy | 95 % interval | by seed | nodes a text | s a run |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for kind, row in results["accuracy"].items():
        seeds = ", ".join(f"{value:.4f}" for value in row["by_seed"].values())
        lines.append(
            f"| {kind} | {row['mean']:.4f} | {row['low']:.4f} to {row['high']:.4f} "
            f"({row['interval']}) | {seeds} | {row['nodes_per_text']:.0f} | {row['seconds']:.0f} |"
        )
    lines += ["", "| difference | accuracy | 95 % interval (texts) | p |", "|---|---|---|---|"]
    for name, row in results["differences"].items():
        lines.append(
            f"| {name} | {row['mean']:+.4f} | {row['low']:+.4f} to {row['high']:+.4f} "
            f"| {row['p']:.3f} |"
        )
    counts = ", ".join(f"{name} {_short(value)}" for name, value in results["counts"].items())
    lines += ["", f"Counts: {counts}.", "", "| published (K-BERT's README) | dev | test |"]
    lines += ["|---|---|---|"]
    lines += [f"| {name} | {dev} | {test} |" for name, (dev, test) in published.items()]
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
