"""A word-knowledge completion comparison as cells, Markdown and JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kept.comparison.pages.tables import markdown
from kept.completion.compare import Comparison, Difference, Row
from kept.evaluation.leakage import LeakCheck

COLUMNS = ("method", "MR", "MRR", "95 % interval", "Hits@1", "Hits@3", "Hits@10")
DIFFERENCES = ("CoLAKE against", "MRR difference", "95 % interval", "p", "verdict")
AUDIT = ("check", "checked", "found", "examples")


def score_cells(rows: Sequence[Row]) -> list[list[str]]:
    """Cells of the score table, one list a row, as in `COLUMNS`."""
    cells = []
    for row in rows:
        if row.metrics is None or row.mrr is None:
            cells.append([row.method, "—", "—", row.skipped or "", "—", "—", "—"])
            continue
        m = row.metrics
        interval = f"{row.mrr.low:.3f} to {row.mrr.high:.3f}"
        hits = [f"{m[f'hits@{k}']:.3f}" for k in (1, 3, 10)]
        cells.append([row.method, f"{m['mr']:.2f}", f"{m['mrr']:.3f}", interval, *hits])
    return cells


def difference_cells(differences: Sequence[Difference]) -> list[list[str]]:
    """Cells of the table of paired differences, as in `DIFFERENCES`."""
    return [
        [
            d.theirs,
            f"{d.mrr.estimate:+.3f}",
            f"{d.mrr.low:+.3f} to {d.mrr.high:+.3f}",
            f"{d.p:.4f}",
            d.verdict,
        ]
        for d in differences
    ]


def audit_cells(checks: Sequence[LeakCheck]) -> list[list[str]]:
    """Cells of the audit, as in `AUDIT`."""
    return [[c.check, str(c.n_checked), str(c.n_found), "; ".join(c.examples)] for c in checks]


def to_markdown(comparison: Comparison) -> str:
    """The whole comparison as Markdown."""
    parts = []
    for setting, conditions in comparison.conditions.items():
        scores = [row for row in comparison.rows if row.setting == setting]
        differences = [d for d in comparison.differences if d.setting == setting]
        parts.append(f"## {setting.capitalize()}\n\n{describe(conditions)}\n")
        parts.append(markdown(COLUMNS, score_cells(scores)))
        parts.append(markdown(DIFFERENCES, difference_cells(differences)))
    parts.append("## Leak audit\n")
    parts.append(markdown(AUDIT, audit_cells(comparison.audit)))
    parts.append("## Counts\n")
    parts.append(markdown(("what", "n"), [[k, str(v)] for k, v in comparison.counts.items()]))
    return "\n".join(parts)


def describe(conditions: Mapping[str, Any]) -> str:
    """The conditions of a ranking in one sentence."""
    return (
        f"{conditions['n_scored']} of {conditions['n_asked']} facts scored, all relations of the "
        f"graph as candidates, filter: {conditions['filter']}, ties: {conditions['ties']}."
    )


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON values."""
    values = msgspec.to_builtins(comparison)
    assert isinstance(values, dict)
    return values
