"""From a cell to its outcome, whatever kind of control it is."""

from __future__ import annotations

from kept.controls.reading.arms import arm
from kept.controls.reading.bench import Opened, run_beside_text
from kept.controls.reading.cell import Cell, Outcome
from kept.controls.reading.descriptions import run_descriptions
from kept.controls.reading.pairs import run_pairs


def run_cell(cell: Cell, opened: Opened | None = None) -> Outcome:
    """Train and measure a cell; `opened`: a host and its tokenizer instead of the budget's."""
    kinds = {"description": run_descriptions, "pairs": run_pairs}
    run = kinds.get(cell.task, run_beside_text)
    assert bool(arm(cell.arm).stage) == (cell.task in kinds)
    return run(cell, opened)
