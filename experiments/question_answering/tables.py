"""The cells as a page: answers with intervals, differences to the controls, edits, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kept.evaluation.crossed import Effect, difference, effect
from kept.evaluation.paired import Counts, f1_value

Cells = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
MEASURES = {
    "chosen": "of the eight values of the relation the right one is the most probable",
    "exact": "exactly the value is written",
}


def counts(cells: Sequence[Mapping[str, Any]], measure: str) -> list[Counts]:
    """Of each seed: right answers, answers, questions, `[question count]`."""
    right = np.array([cell[measure] for cell in cells], np.float64)
    return list(np.stack([right, np.ones_like(right), np.ones_like(right)], axis=-1))


def share(cells: Sequence[Mapping[str, Any]], measure: str) -> Effect:
    """The share of right answers, with its interval over seeds and questions."""
    return effect(np.stack(counts(cells, measure)), f1_value)


def gain(cells: Cells, row: str, control: str, measure: str) -> Effect:
    """True facts minus a control; facts that are off are those of the row, or of the host."""
    ours = counts(cells[row]["true"], measure)
    theirs = counts(cells[row].get(control) or cells["host alone"]["off"], measure)
    if len(theirs) == 1:
        theirs = theirs * len(ours)
    return difference(ours, theirs, f1_value)


def to_json(cells: Cells) -> dict[str, Any]:
    """All numbers of the page."""
    return {
        measure: {
            row: {name: _numbers(share(found, measure)) for name, found in conditions.items()}
            for row, conditions in cells.items()
        }
        for measure in MEASURES
    }


def _numbers(found: Effect) -> dict[str, float]:
    interval = found.interval()
    return {
        "estimate": round(found.estimate, 4), "low": round(interval.low, 4),
        "high": round(interval.high, 4), "seeds": found.n_seeds,
    }  # fmt: skip


def to_markdown(cells: Cells, command: str) -> str:
    """The page."""
    n = len(next(iter(next(iter(cells.values())).values()))[0]["exact"])
    lines = [
        "# Questions about a private world",
        f"<!-- written by {command} -->",
        "",
        (
            f"{n} questions, chance .125. Intervals of 95 % over seeds of training and questions; "
            "with one seed over questions alone. *edited*: every value was changed after training; "
            "right is the new one. CPU milliseconds a question include building the graph."
        ),
    ]
    for measure, meaning in MEASURES.items():
        lines += ["", f"## {measure}: {meaning}", "", *_table(cells, measure)]
    return "\n".join([*lines, ""])


def _table(cells: Cells, measure: str) -> list[str]:
    names = ("true", "off", "another", "shuffled", "edited")
    lines = [
        "| row | seeds | " + " | ".join(names) + " | true − off | true − another | nodes | ms |",
        "|" + " --- |" * 11,
    ]
    for row, conditions in cells.items():
        shown = [_cell(conditions.get(name), measure) for name in names]
        for control in ("off", "another"):
            has = "true" in conditions and (control == "off" or control in conditions)
            shown.append(_signed(gain(cells, row, control, measure)) if has else "")
        first = next(iter(conditions.values()))
        costs = [f"{np.mean([c[k] for c in first]):.0f}" for k in ("nodes", "cpu_ms")]
        lines.append("| " + " | ".join([row, str(len(first)), *shown, *costs]) + " |")
    return lines


def _cell(cells: Sequence[Mapping[str, Any]] | None, measure: str) -> str:
    if cells is None:
        return ""
    found = share(cells, measure)
    interval = found.interval()
    return f"{found.estimate:.2f} [{max(interval.low, 0):.2f}, {min(interval.high, 1):.2f}]"


def _signed(found: Effect) -> str:
    interval = found.interval()
    return f"{found.estimate:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"
