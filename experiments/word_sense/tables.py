"""The committed page: F1 with intervals, what was published, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_markdown(results: Mapping[str, Any]) -> str:
    """All tables of `study.run`."""
    names = list(results["data"])
    config = results["config"]
    lines = ["# Word sense disambiguation with WordNet 3.0", ""]
    lines.append(
        "F1 in per cent with 95 % intervals (bootstrap over sentences, "
        f"{config['n_resamples']} resamples), and the difference from "
        f'"{config["baseline"]}" (paired, the same resamples of sentences). '
        "Every instance is answered, so precision, recall and F1 are one number."
    )
    lines.append("")
    lines += _systems(results, names)
    lines += ["", "## Published on the same files", ""]
    lines += ["| system | " + " | ".join(names) + " | source |"]
    lines += ["|---" * (len(names) + 2) + "|"]
    for system, row in config["published"].items():
        cells = " | ".join(f"{row[name]}" if name in row else "—" for name in names)
        lines.append(f"| {system} | {cells} | {row['source']} |")
    lines += ["", "## Counts", "", "| what | " + " | ".join(names) + " |"]
    lines += ["|---" * (len(names) + 1) + "|"]
    for what in (
        "documents", "sentences", "sentences_with_instances", "instances", "one_sense",
        "context_words",
    ):  # fmt: skip
        cells = " | ".join(str(results["data"][name][what]) for name in names)
        lines.append(f"| {what.replace('_', ' ')} | {cells} |")
    seconds = ", ".join(f"{part} {value:.0f}" for part, value in results["cpu_seconds"].items())
    lines += ["", f"CPU seconds on one thread, both data sets: {seconds}."]
    return "\n".join(lines) + "\n"


def _systems(results: Mapping[str, Any], names: list[str]) -> list[str]:
    header = [f"{name} | difference" for name in names]
    lines = ["| system | " + " | ".join(header) + " |", "|---" * (2 * len(names) + 1) + "|"]
    for system in results["config"]["systems"]:
        cells = []
        for name in names:
            row = results["data"][name]["systems"][system]
            cells.append(
                f"{100 * row['f1']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
            )
            gap = row.get("difference")
            cells.append(
                f"{100 * gap['mean']:+.1f} ({100 * gap['low']:+.1f} to {100 * gap['high']:+.1f})"
                if gap
                else "—"
            )
        lines.append(f"| {system} | " + " | ".join(cells) + " |")
    return lines
