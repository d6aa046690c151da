"""Cells of the reading controls, run one after the other and kept under their hashes.

A folder holds `cells/KEY.json`, one `Outcome` each; a study that was interrupted goes on where it
stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from kept.lab.reading.arms import ARMS, TASK_NAMES, arm, recipe_arms
from kept.lab.reading.cell import BUDGET, Budget, Cell, Outcome, described
from kept.lab.reading.conditions import CONDITIONS, REDRAWN, TRUE
from kept.lab.reading.descriptions import run_descriptions
from kept.lab.reading.measures import GOOD, Verdict
from kept.lab.reading.pairs import run_pairs
from kept.lab.reading.trial import Opened, run_text_task
from kept.lab.reading.worlds import SIZE, Size
from kept.lab.study.store import read_stored, stored_once

CELLS = "cells"
FAULT = "is not an outcome of a reading control"
REMEDY = "remove it, then run the command again"
CEILING = 1.0
"""The accuracy of a perfect reader: every answer is in the graph."""
Run = Callable[[Cell], Outcome]
Report = Callable[[Cell, Outcome | None], None]


def run_cell(cell: Cell, opened: Opened | None = None) -> Outcome:
    """Train and measure a cell; `opened`: a host and its tokenizer instead of the budget's."""
    kinds = {"description": run_descriptions, "pairs": run_pairs}
    run = kinds.get(cell.task, run_text_task)
    assert bool(arm(cell.arm).stage) == (cell.task in kinds)
    return run(cell, opened)


@dataclass(frozen=True, kw_only=True)
class ReadingDesign:
    """Arms by tasks by conditions by seeds; the first seed of everything comes first.

    Other conditions than "true" are run only where an arm reads, for as many steps as "true" took.
    Seeds are `first_seed` and on: settings are chosen on others than those that are reported.
    """

    arms: Sequence[str]
    tasks: Sequence[str]
    conditions: Sequence[str] = (TRUE, REDRAWN)
    seeds: int = 1
    first_seed: int = 0
    size: Size = SIZE
    budget: Budget = BUDGET

    def cells(self, true: Callable[[Cell], Outcome | None]) -> Iterator[Cell]:
        """All cells; `true` gives the outcome of an earlier cell, None if it was not run."""
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            for name in self.arms:
                for task in self._tasks(name):
                    first = Cell(
                        task=task, arm=name, condition=TRUE, seed=seed, size=self.size,
                        budget=self.budget,
                    )  # fmt: skip
                    yield first
                    outcome = true(first)
                    if outcome is not None and outcome.accuracy < GOOD * CEILING:
                        continue
                    steps = self.budget.steps if outcome is None else outcome.stopped_at
                    for condition in CONDITIONS:
                        if condition in self.conditions and condition != TRUE:
                            budget = dataclasses.replace(self.budget, steps=steps)
                            yield dataclasses.replace(first, condition=condition, budget=budget)

    def _tasks(self, name: str) -> tuple[str, ...]:
        tasks = arm(name).tasks
        return tuple(task for task in self.tasks if task in tasks) or tasks[:1]


def run_study(
    study: ReadingDesign,
    folder: Path,
    *,
    run: Run | None = None,
    report: Report = lambda cell, outcome: None,
) -> list[Outcome]:
    """The outcome of every cell; those that are stored in `folder` are not run again.

    `report` is called before a cell is run (with None), and with each outcome.
    """
    outcomes: dict[str, Outcome] = {}

    def make(cell: Cell) -> Outcome:
        report(cell, None)
        return (run or run_cell)(cell)

    for cell in study.cells(lambda cell: outcomes.get(cell.key)):
        path = folder / CELLS / f"{cell.key}.json"
        outcome = stored_once(path, Outcome, partial(make, cell), fault=FAULT, remedy=REMEDY)
        outcomes[cell.key] = outcome
        report(cell, outcome)
    return list(outcomes.values())


def read_outcomes(folder: Path) -> list[Outcome]:
    """Stored outcomes of a folder whose arms are unchanged, by task, arm, condition and seed."""
    paths = sorted((folder / CELLS).glob("*.json"))
    every = [read_stored(path, Outcome, FAULT, REMEDY) for path in paths]
    arms, kinds = [*ARMS, *recipe_arms()], list(CONDITIONS)
    outcomes = [o for o in every if o and o.arm in arms and o.settings["arm"] == described(o.arm)]
    return sorted(
        outcomes,
        key=lambda o: (
            TASK_NAMES.index(o.task),
            arms.index(o.arm),
            kinds.index(o.condition),
            o.seed,
        ),
    )


def verdict(outcomes: Sequence[Outcome], name: str, task: str) -> Verdict | None:
    """Whether an arm reads in a task, means over seeds; None where "true" was not run.

    Without a stored outcome of another entity's facts an arm can be right, but not be said to read.
    """
    mine = [o for o in outcomes if (o.arm, o.task) == (name, task)]
    true = [o for o in mine if o.condition == TRUE]
    if not true:
        return None
    others = [o for o in mine if o.condition == REDRAWN]
    return Verdict(
        accuracy=fmean(o.accuracy for o in true),
        others=fmean(o.accuracy for o in others) if others else None,
        chance=true[0].chance,
        ceiling=CEILING,
        n=sum(o.n for o in others) or true[0].n,
        steps=max(o.steps for o in true),
    )
