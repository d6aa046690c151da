"""Running a cell of any kind of control."""

from __future__ import annotations

from kept.lab.reading.arms import arm
from kept.lab.reading.cell import Cell, Outcome
from kept.lab.reading.descriptions import run_descriptions
from kept.lab.reading.pairs import run_pairs
from kept.lab.reading.trial import Opened, run_text_task


def run_cell(cell: Cell, opened: Opened | None = None) -> Outcome:
    """Train and measure a cell; `opened`: a host and its tokenizer instead of the budget's."""
    kinds = {"description": run_descriptions, "pairs": run_pairs}
    run = kinds.get(cell.task, run_text_task)
    assert bool(arm(cell.arm).stage) == (cell.task in kinds)
    return run(cell, opened)
