"""A comparison of methods as cells and JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kept.completion.method_comparison import Difference, MethodComparison, Row
from kept.completion.method_runs import Outcome
from kept.graphs.coverage import COLUMN, cell
from kept.methods import title

SCORES = ("method", "knowledge", "accuracy", "95 % interval", "n", COLUMN)
DIFFERENCES = ("method", "against", "accuracy difference", "95 % interval", "p", "verdict")
COSTS = (
    "method", "knowledge", "parameters added (encoder + pre-training heads)",
    "trained (pre-training, fine-tuning)", "mentions linked when asked", "ms a sentence",
    "seconds (pre-training + fine-tuning)",
)  # fmt: skip
LOSSES = ("method", "knowledge", "loss", "first steps", "last steps", "")


def score_cells(rows: Sequence[Row], outcomes: Sequence[Outcome] = ()) -> list[list[str]]:
    """Cells of the table of scores; runs that are the baseline itself say so."""
    same = {(o.method, o.knowledge) for o in outcomes if o.is_baseline}
    covered = {(o.method, o.knowledge): o.coverage or {} for o in outcomes}
    return [
        [
            row.method if row.knowledge is None else title(row.method),
            _knowledge(row.knowledge, is_baseline=(row.method, row.knowledge) in same),
            f"{row.accuracy.estimate:.3f}",
            f"{row.accuracy.low:.3f} to {row.accuracy.high:.3f}",
            str(row.n),
            ""
            if row.knowledge is None
            else cell(covered.get((row.method, row.knowledge), {}).get(row.setting)),
        ]
        for row in rows
    ]


def difference_cells(differences: Sequence[Difference]) -> list[list[str]]:
    """Cells of the table of paired differences."""
    return [
        [
            title(d.method),
            d.theirs,
            f"{d.accuracy.estimate:+.3f}",
            f"{d.accuracy.low:+.3f} to {d.accuracy.high:+.3f}",
            f"{d.p:.4f}",
            d.verdict,
        ]
        for d in differences
    ]


def cost_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Cells of the table of costs, a row a run that was trained."""
    return [
        [
            title(o.method),
            o.knowledge,
            f"{o.added[0]:,} + {o.added[1]:,}",
            f"{o.trained[0]:,}, {o.trained[1]:,}",
            f"{o.linked[0]} of {o.linked[1]}",
            f"{o.milliseconds:.1f}",
            f"{o.seconds[0]:.0f} + {o.seconds[1]:.0f}",
        ]
        for o in outcomes
        if not o.is_baseline
    ]


def loss_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Cells of the table of losses, a row a loss of a run that was trained."""
    return [
        [
            title(o.method),
            o.knowledge,
            name,
            f"{first:.3f}",
            f"{last:.3f}",
            "falls" if last < first else "does not fall",
        ]
        for o in outcomes
        if not o.is_baseline
        for name, (first, last) in o.losses.items()
    ]


def to_json(comparison: MethodComparison) -> dict[str, Any]:
    """The whole comparison as JSON values, verdicts written out."""
    values = msgspec.to_builtins(comparison)
    assert isinstance(values, dict)
    for cells, difference in zip(values["differences"], comparison.differences, strict=True):
        cells["verdict"] = difference.verdict
    return values


def _knowledge(knowledge: str | None, *, is_baseline: bool) -> str:
    if knowledge is None:
        return "—"
    return f"{knowledge}: the same model as none" if is_baseline else knowledge
