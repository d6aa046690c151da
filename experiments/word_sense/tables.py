"""The committed page: F1 with intervals, what was published, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kept.lab.study.cells import page_of
from kept.lab.study.tables import NOTHING, Table

COUNTS = (
    "documents", "sentences", "sentences_with_instances", "instances", "one_sense", "context_words",
)  # fmt: skip


def to_markdown(results: Mapping[str, Any]) -> str:
    """Return all tables of the results."""
    data, config = results["data"], results["config"]
    columns = [column for name in data for column in (name, "difference")]
    systems = [
        [
            system,
            *(cell for of_data in data.values() for cell in _cells(of_data["systems"][system])),
        ]
        for system in config["systems"]
    ]
    published = [
        [system, *(row.get(name, NOTHING) for name in data), row["source"]]
        for system, row in config["published"].items()
    ]
    counts = [
        [what.replace("_", " "), *(of_data[what] for of_data in data.values())] for what in COUNTS
    ]
    seconds = ", ".join(f"{part} {value:.0f}" for part, value in results["cpu_seconds"].items())
    about = (
        "F1 in per cent with 95 % intervals (bootstrap over sentences, "
        f"{config['n_resamples']} resamples), and the difference from "
        f'"{config["baseline"]}" (paired, the same resamples of sentences). '
        "Every instance is answered, so precision, recall and F1 are one number."
    )
    return page_of(
        "Word sense disambiguation with WordNet 3.0", "", about,
        Table(("system", *columns), systems),
        "## Published on the same files", Table(("system", *data, "source"), published),
        "## Counts", Table(("what", *data), counts),
        f"CPU seconds on one thread, both data sets: {seconds}.",
    )  # fmt: skip


def _cells(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return F1 and the difference from the baseline, in per cent."""
    f1 = _percent(row["f1"], row)
    gap = row.get("difference")
    return f1, NOTHING if gap is None else _percent(gap["mean"], gap, "+")


def _percent(mean: float, limits: Mapping[str, float], sign: str = "") -> str:
    low, high = limits["low"], limits["high"]
    return f"{100 * mean:{sign}.1f} ({100 * low:{sign}.1f} to {100 * high:{sign}.1f})"
