"""The study of layers as a page, JSON values and a picture of its curves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kept.lab.probing.layers.study import MAJORITY, LayerRow
from kept.lab.study.tables import NOTHING, Table, with_interval
from kept.plotting import require_plotting

CAPTION = (
    "Accuracy of linear probes on test questions, with 95 % intervals bootstrapped over sentences; "
    "layer 0 is the embedding. A difference is from the same layer of the first encoder, on the "
    "same questions."
)


def to_markdown(rows: Sequence[LayerRow], command: str, conditions: str) -> str:
    """The page; `command` is the one that produced it."""
    parts = ["# What each layer holds", f"`{command}`", conditions, CAPTION]
    for task in dict.fromkeys(row.task for row in rows):
        table = _table([row for row in rows if row.task == task])
        parts += [f"## {task}", table.markdown().rstrip()]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[LayerRow]) -> Table:
    encoders = list(dict.fromkeys(row.encoder for row in rows if row.encoder))
    layers = list(dict.fromkeys(row.layer for row in rows if row.encoder))
    by_cell = {(row.encoder, row.layer): row for row in rows}
    lines = [[layer, *(_cell(by_cell.get((name, layer))) for name in encoders)] for layer in layers]
    rest = [NOTHING] * (len(encoders) - 1)
    lines += [[row.layer, _cell(row), *rest] for row in rows if not row.encoder]
    return Table(("layer", *encoders), lines)


def _cell(row: LayerRow | None) -> str:
    if row is None:
        return NOTHING
    difference = "" if row.difference is None else f"; {with_interval(row.difference, '+')}"
    return f"{with_interval(row.accuracy)}{difference}"


def shortfalls(rows: Sequence[LayerRow]) -> list[str]:
    """Return a warning for each encoder and task of which no layer is above the majority."""
    majority = {row.task: row.accuracy.estimate for row in rows if row.layer == MAJORITY}
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.encoder:
            key = (row.encoder, row.task)
            best[key] = max(best.get(key, 0.0), row.accuracy.estimate)
    return [
        f"{encoder}, {task}: the best layer ({score:.3f}) is no better than always the most "
        f"frequent answer ({majority[task]:.3f}): its states do not tell, or the probe has too few "
        "questions (--train-questions)"
        for (encoder, task), score in best.items()
        if score <= majority.get(task, -1.0)
    ]


def to_values(rows: Sequence[LayerRow], command: str, conditions: str) -> dict[str, Any]:
    """The study as JSON values."""
    return {
        "command": command,
        "conditions": conditions,
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def draw_layers(rows: Sequence[LayerRow], png: Path) -> None:
    """Accuracy over layers: a picture per task, a line per encoder, baselines dotted."""
    require_plotting()
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(row.task for row in rows))
    figure = Figure(figsize=(7, 2.8 * len(tasks)), layout="constrained")
    for axis, task in zip(figure.subplots(len(tasks), squeeze=False)[:, 0], tasks, strict=True):
        mine = [row for row in rows if row.task == task]
        for number, name in enumerate(dict.fromkeys(row.encoder for row in mine if row.encoder)):
            line = [row for row in mine if row.encoder == name]
            layers = [int(row.layer) for row in line]
            values = [row.accuracy for row in line]
            low, high = [v.low for v in values], [v.high for v in values]
            axis.plot(
                layers,
                [v.estimate for v in values],
                color=f"C{number}",
                marker="o",
                markersize=3,
                label=name,
            )
            axis.fill_between(layers, low, high, color=f"C{number}", alpha=0.15)
        for row in mine:
            if not row.encoder:
                axis.axhline(row.accuracy.estimate, color="0.6", linestyle=":", linewidth=1)
                axis.annotate(
                    row.layer,
                    (0, row.accuracy.estimate),
                    fontsize=6,
                    color="0.4",
                    xytext=(0, 2),
                    textcoords="offset points",
                )
        axis.set(title=task, xlabel="layer", ylabel="accuracy")
        axis.legend(fontsize=7)
    figure.savefig(png, format="png", dpi=120, metadata={"Software": None})
