"""What was measured: cells, and intervals over their questions, kept as JSON.

The questions of a cell lie in the folder of the run that made it alone. Their intervals are kept,
so that the page of a later run can hold the cells of an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kept.lab.completion.rankings import RowQuestions

CELL, QUESTIONS = "cell.json", "questions.npz"
Cell = Mapping[str, Any]
Cells = Mapping[tuple[str, str], Sequence[Cell]]
"""By graph and scorer: the cells of its seeds."""


def place_of(run: Path, graph: str, scorer: str, seed: int) -> Path:
    """Return the folder of a cell."""
    return run / "cells" / graph / scorer.replace(" ", "_") / str(seed)


@dataclass(frozen=True)
class Record:
    """`results.json`: an interval is of one scorer's MRR, or of the difference of two.

    It names the graph, the part that was asked, and the seeds of each scorer.
    """

    cells: list[dict[str, Any]] = field(default_factory=list)
    intervals: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Record:
        """What the `results.json` of a run holds."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def cell(self, scorer: str, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """The cell of a scorer with these settings."""
        alike = (c for c in self.cells if c["scorer"] == scorer and c["settings"] == settings)
        return next(alike, None)

    def interval(self, graph: str, part: str, *scorers: str) -> dict[str, Any] | None:
        """The interval of a scorer, or of two."""
        return next((one for one in self.intervals if _is_of(one, graph, part, scorers)), None)


def judge(cells: Cells, pairs: Sequence[Sequence[str]], run: Path, earlier: Record) -> Record:
    """Return the record of these cells, with intervals over the questions in the folder `run`.

    One of `earlier` stays where its cells have the results they had then, and it is over more
    seeds, or earlier ones.
    """
    parts = {(graph, part): None for (graph, _), of_row in cells.items()
             for cell in of_row for part in cell["parts"]}  # fmt: skip
    rows = list(dict.fromkeys((scorer,) for _, scorer in cells)) + [(a, b) for a, b in pairs]
    intervals = []
    for graph, part in parts:
        for scorers in rows:
            possible = [
                one for one in earlier.intervals
                if _is_of(one, graph, part, scorers) and _is_valid(one, cells, earlier)
            ]  # fmt: skip
            here = [
                [cell for cell in cells.get((graph, scorer), ())
                 if part in cell["parts"] and _has_questions(cell, run)] for scorer in scorers
            ]  # fmt: skip
            if all(here):
                possible.insert(0, _over_questions(here, part, run))
            intervals += sorted(possible, key=_order)[:1]
    return Record([dict(cell) for of_row in cells.values() for cell in of_row], intervals)


def _is_of(interval: Mapping[str, Any], graph: str, part: str, scorers: Sequence[str]) -> bool:
    about = interval["graph"], interval["part"], *interval["seeds"]
    return about == (graph, part, *scorers)


def _is_valid(interval: Mapping[str, Any], cells: Cells, earlier: Record) -> bool:
    """Whether every cell of an interval is there, as `earlier` has it."""
    graph, part = interval["graph"], interval["part"]
    for scorer, seeds in interval["seeds"].items():
        now = {cell["seed"]: cell["parts"].get(part) for cell in cells.get((graph, scorer), ())}
        then = {cell["seed"]: cell["parts"].get(part) for cell in earlier.cells
                if (cell["graph"], cell["scorer"]) == (graph, scorer)}  # fmt: skip
        if any(now.get(seed) is None or now[seed] != then.get(seed) for seed in seeds):
            return False
    return True


def _order(interval: Mapping[str, Any]) -> tuple[int, list[list[int]]]:
    """Most seeds first, then the first seeds."""
    seeds = list(interval["seeds"].values())
    return -sum(len(one) for one in seeds), seeds


def _run_folder(cell: Cell, run: Path) -> Path:
    return place_of(run, cell["graph"], cell["scorer"], cell["seed"])


def _has_questions(cell: Cell, run: Path) -> bool:
    folder = _run_folder(cell, run)
    if not ((folder / CELL).is_file() and (folder / QUESTIONS).is_file()):
        return False
    there = json.loads((folder / CELL).read_text(encoding="utf-8"))
    return bool(there["parts"] == cell["parts"])


def _over_questions(cells: Sequence[Sequence[Cell]], part: str, run: Path) -> dict[str, Any]:
    """Return the interval of one scorer's cells, or of two scorers', with questions in `run`."""
    seeds = {of_row[0]["scorer"]: [cell["seed"] for cell in of_row] for of_row in cells}
    about = {"graph": cells[0][0]["graph"], "part": part, "seeds": seeds}
    rows = [
        RowQuestions(name, part, [_run_folder(cell, run) / QUESTIONS for cell in of_row])
        for name, of_row in zip(seeds, cells, strict=True)
    ]
    if len(rows) == 1:
        return about | {"interval": asdict(rows[0].interval("rr"))}
    interval, p, words = rows[0].against(rows[1], "rr")
    return about | {"interval": asdict(interval), "p": p, "verdict": words}
