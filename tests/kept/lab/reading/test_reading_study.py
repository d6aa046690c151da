"""A study of cells: resumable, one stored outcome each, and what its pages say."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.errors import CheckpointError
from kept.lab.reading import study as module
from kept.lab.reading.cell import Budget, Cell, Outcome
from kept.lab.reading.measures import DOES_NOT_READ, NOT_TESTED, READS, Verdict
from kept.lab.reading.study import ReadingDesign, read_outcomes, run_study, verdict
from kept.lab.reading.tables import (
    conditions_line,
    path_cells,
    reading_cells,
    to_markdown,
    to_values,
)
from kept.lab.reading.verdicts import in_budget, stored, stored_verdict

READERS = ("kbert-mention", "words")


def simulated(cell: Cell, opened: Any = None) -> Outcome:
    """A reader is right under true facts, all others are at chance; readers stop at step 60."""
    reads = cell.arm in READERS and cell.condition == "true"
    accuracy = 1.0 if reads else 0.125
    stopped = min(60, cell.budget.steps) if reads else cell.budget.steps
    return Outcome(
        task=cell.task, arm=cell.arm, condition=cell.condition, seed=cell.seed, accuracy=accuracy,
        n=240, chance=0.125, n_classes=8, curve=[(0, 0.125), (stopped, accuracy)],
        losses=[(stopped, 0.1)], until_good=stopped if reads else None, probe=(0.2, accuracy),
        moved=(0.1, 0.9), gradients=({"host": 1.0, "head": 2.0}, {"host": 0.1, "head": 0.2}),
        edited={"new": accuracy, "old": 0.0, "n": 240} if cell.condition == "true" else None,
        stopped_at=stopped, steps=cell.budget.steps, seconds=1.0, settings=cell.settings,
    )  # fmt: skip


STUDY = ReadingDesign(
    arms=("kbert-published", "kbert-mention"), tasks=(), seeds=2, budget=Budget(steps=100)
)


def test_every_cell_is_run_once_and_true_comes_first(tmp_path: Path) -> None:
    cells: list[Cell] = []

    def run(cell: Cell) -> Outcome:
        cells.append(cell)
        return simulated(cell)

    results = run_study(STUDY, tmp_path, run=run)
    order = [(c.arm, c.condition, c.seed) for c in cells]
    assert order[:3] == [
        ("kbert-published", "true", 0),
        ("kbert-mention", "true", 0),
        ("kbert-mention", "redrawn", 0),
    ]
    assert [c.budget.steps for c in cells[:3]] == [100, 100, 60]
    assert len(results) == len(cells) == 6
    again = run_study(STUDY, tmp_path, run=lambda cell: pytest.fail(f"{cell} is stored"))
    assert again == results
    assert sorted(o.seed for o in read_outcomes(tmp_path)) == [0] * 3 + [1] * 3


def test_settings_are_chosen_on_other_seeds(tmp_path: Path) -> None:
    study = dataclasses.replace(STUDY, first_seed=100)
    outcomes = run_study(study, tmp_path, run=simulated)
    assert {outcome.seed for outcome in outcomes} == {100, 101}


def test_a_study_that_was_cut_goes_on(tmp_path: Path) -> None:
    def cut(cell: Cell) -> Outcome:
        if cell.arm == "kbert-mention":
            raise KeyboardInterrupt
        return simulated(cell)

    with pytest.raises(KeyboardInterrupt):
        run_study(STUDY, tmp_path, run=cut)
    cells: list[Cell] = []
    run_study(STUDY, tmp_path, run=lambda cell: cells.append(cell) or simulated(cell))  # type: ignore[func-returns-value]
    assert {cell.arm for cell in cells if cell.seed == 0} == {"kbert-mention"}


def test_a_stored_outcome_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    first = next(iter(STUDY.cells(lambda cell: None)))
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / f"{first.key}.json").write_text("{}")
    with pytest.raises(CheckpointError, match=f"{first.key}.json is not an outcome"):
        run_study(STUDY, tmp_path, run=simulated)


def test_readers_and_others_are_judged(tmp_path: Path) -> None:
    outcomes = run_study(STUDY, tmp_path, run=simulated)
    reads, not_tested = (
        verdict(outcomes, name, "occupation") for name in ("kbert-mention", "kbert-published")
    )
    assert reads is not None
    assert not_tested is not None
    assert (reads.in_words, not_tested.in_words) == (READS, DOES_NOT_READ)
    assert reads.n == 480
    assert verdict(outcomes, "colake", "occupation") is None
    rows = {row[0]: row for row in reading_cells(outcomes)}
    assert rows["kbert-mention"][2] == "1.000, 1.000"
    assert rows["kbert-mention"][-1] == READS
    assert "never, never" in rows["kbert-published"]


def test_the_page_and_the_values_agree(tmp_path: Path) -> None:
    outcomes = run_study(STUDY, tmp_path, run=simulated)
    page, values = to_markdown(outcomes, "kept check reading"), to_values(outcomes, "…")
    for row in values["verdicts"]:
        assert row["verdict"] in page
    assert [row["until_good"] for row in values["verdicts"]] == [None, 60]
    assert json.loads(json.dumps(values))["outcomes"][0]["curve"] == [[0, 0.125], [100, 0.125]]


def test_the_command_writes_page_values_and_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_cell", simulated)
    line = ["check", "reading", "--methods", "kbert", "--steps", "80", "-o", str(tmp_path / "r")]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    assert READS in done.output
    assert {path.name for path in (tmp_path / "r").iterdir()} == {
        "cells", "reading.md", "reading.json", "reading.curves.png",
    }  # fmt: skip
    assert CliRunner().invoke(app, line).exit_code == 0
    for option, fault in (("--tasks", "occupations"), ("--conditions", "tru"), ("--methods", "x")):
        done = CliRunner().invoke(app, [*line, option, fault])
        assert done.exit_code == 1
        assert fault in done.output


def test_comparisons_are_told_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, Any]] = [
        {"arm": "kbert-published", "verdict": DOES_NOT_READ, "until_good": None, "steps": 400},
        {"arm": "kbert-mention", "verdict": READS, "until_good": 60, "steps": 400},
        {"arm": "colake-published", "verdict": NOT_TESTED, "until_good": 140, "steps": 200},
    ]
    rows = [{**row, "host": "minilm", "n_layers": 3, "seeds": 1} for row in rows]
    monkeypatch.setattr("kept.lab.reading.verdicts.stored", lambda: tuple(rows))
    mention = {"view": {"max_branches": 16}, "graph": {"directions": "both"}, "markers": "none"}

    def stored_difference(
        method: str, steps: int, settings: dict[str, Any], host: str = "minilm"
    ) -> str | None:
        verdict = stored_verdict(method, steps, settings, host=host)
        return verdict and verdict.verdict

    assert stored_difference("kbert", 300, {}) == DOES_NOT_READ
    assert stored_difference("kbert", 3000, {}) is None
    assert stored_difference("kbert", 300, {}, "bert-base-uncased") is None
    assert stored_difference("kbert", 300, mention) == READS
    assert stored_difference("kbert", 40, mention) == DOES_NOT_READ
    assert stored_difference("kbert", 300, {"graph": {"directions": "both"}}) == DOES_NOT_READ
    assert stored_difference("kbert", 300, {"markers": "none"}) == DOES_NOT_READ
    assert (
        stored_difference("kbert", 300, {"view": {"soft_positions": False}}) is None
    )  # nobody has looked
    assert stored_difference("kbert", 300, {"options": {"scale": "host"}}) is None
    assert stored_difference("ernie", 300, {}) is None
    assert stored_difference("colake", 300, {}) == NOT_TESTED
    assert stored_difference("colake", 100, {}) == DOES_NOT_READ
    words = {
        steps: verdict.in_words
        for steps in (100, 400)
        if (verdict := stored_verdict("kbert", steps, {}, host="minilm"))
    }
    assert words == {
        steps: f"{DOES_NOT_READ} in {steps} steps (first 3 layers of minilm, 1 seed)"
        for steps in (100, 400)
    }


def test_what_is_committed_can_be_read() -> None:
    assert {row["verdict"] for row in stored()} == {READS, NOT_TESTED, DOES_NOT_READ}
    names = ("accuracy", "others", "chance", "ceiling", "n", "steps")
    for row in stored():
        assert row["verdict"] == Verdict(**{name: row[name] for name in names}).in_words
    not_tested = {row["arm"] for row in stored() if row["verdict"] == NOT_TESTED}
    assert not_tested == {"kbert-published", "colake-published"}


def test_what_is_committed_is_what_the_committed_runs_say() -> None:
    """Each verdict is one of a results file, of those with most seeds; pages name the budget."""
    folder = Path(__file__).parents[4] / "experiments/reading"
    files = {path: json.loads(path.read_text())["verdicts"] for path in folder.glob("*.json")}
    results = [row for rows in files.values() for row in rows]
    for row in stored():
        where = ("arm", "task", "host", "n_layers")
        same = [each for each in results if all(each[name] == row[name] for name in where)]
        assert row in same
        assert row["seeds"] == max(each["seeds"] for each in same)
    for path, rows in files.items():
        page = path.with_suffix(".md").read_text().splitlines()
        for row in rows:
            (line,) = [each for each in page
                       if each.startswith(f"| {row['arm']} | {row['task']} | ")
                       and each.endswith(f" {in_budget(row)} |")]  # fmt: skip
            assert line


def test_norms_that_one_seed_lacks_are_left_out(tmp_path: Path) -> None:
    def run(cell: Cell) -> Outcome:
        before, after = {"host": 1.0, "head": 2.0}, {"host": 0.5, "head": 0.25}
        more = {"injected": 3.0} if cell.seed else {}
        return msgspec.structs.replace(simulated(cell), gradients=(before | more, after | more))

    rows = path_cells(run_study(STUDY, tmp_path, run=run))
    assert rows[0][2:4] == ["host 1, head 2", "host 0.5, head 0.25"]


def test_the_conditions_name_the_steps_of_true_facts_and_all_seeds(tmp_path: Path) -> None:
    outcomes = run_study(STUDY, tmp_path, run=simulated)
    line = conditions_line(outcomes)
    assert "at most 100 steps" in line, "other conditions have the 60 that true took"
    assert "Seeds 0, 1." in line
    assert "(first 3 layers, its word table frozen)" in line
    longer = dataclasses.replace(STUDY, budget=Budget(steps=200, n_layers=None, train_words=True))
    both = [*run_study(longer, tmp_path / "longer", run=simulated), *outcomes]
    assert "(all layers)" in conditions_line(both)
    assert "at most 100 or 200 steps" in conditions_line(both)
