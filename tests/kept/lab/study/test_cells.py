"""Studies of cells: each cell is made once, effects pair seeds, a page leaves out what is empty."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kept.errors import CheckpointError, ConfigError
from kept.lab.study.cells import (
    CellTrial,
    PlainCellTrial,
    counts_of_digits,
    mean_effect,
    page_of,
    paired_effect,
)
from kept.lab.study.origins import Origin, fingerprint_of
from kept.lab.study.tables import Table


class Toy(CellTrial):
    """Two rows; nothing is drawn in the first."""

    rows = ("fixed", "drawn")

    def __init__(self, folder: Path, settings: int = 0) -> None:
        self.folder, self.settings, self.calls = folder, settings, list[str]()

    def seeds(self, row: str) -> tuple[int, ...]:
        return (0,) if row == "fixed" else (0, 1)

    def origin(self, row: str, seed: int) -> Origin:
        return {"settings": fingerprint_of(self.settings)}

    def run(self, row: str, seed: int) -> str:
        self.calls.append(f"{row} {seed}")
        return f"1{seed}"

    def summary(self, row: str, seed: int, cell: str) -> str:
        return f"{row}, seed {seed}: {cell}"


def test_cells_are_made_once_seed_by_seed(tmp_path: Path) -> None:
    trial, lines = Toy(tmp_path), list[str]()
    trial.run_missing(announce=lines.append)
    assert trial.calls == ["fixed 0", "drawn 0", "drawn 1"]
    assert lines == ["fixed, seed 0: 10", "drawn, seed 0: 10", "drawn, seed 1: 11"]
    trial.run_missing(trial.keys(["drawn"], 1), announce=lines.append)
    assert lines[3:] == ["drawn, seed 1: 11"]
    assert len(trial.calls) == 3
    assert trial.stored() == {"fixed": {0: "10"}, "drawn": {0: "10", 1: "11"}}


def test_after_the_time_is_up_no_cell_is_begun(tmp_path: Path) -> None:
    trial = Toy(tmp_path)
    trial.run_missing([("drawn", 0)])
    trial.run_missing(should_stop=lambda: True)
    assert trial.calls == ["drawn 0"]
    for wrong, seeds in ((("other",), None), (None, 7)):
        with pytest.raises(ConfigError, match=r"rows are fixed, drawn|seeds are 0, 1"):
            trial.keys(wrong, seeds)


def test_a_cell_of_other_settings_is_refused(tmp_path: Path) -> None:
    Toy(tmp_path).cell("drawn", 1)
    assert Toy(tmp_path).stored() == {"drawn": {1: "11"}}
    for read in (lambda: Toy(tmp_path, 1).cell("drawn", 1), Toy(tmp_path, 1).stored):
        with pytest.raises(CheckpointError, match=r"drawn-1\.json came of other settings"):
            read()


class PlainToy(PlainCellTrial):
    """A cell is a list of numbers; the tuple that is computed is read as one."""

    rows, form = ("only",), list[int]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def seeds(self, row: str) -> tuple[int, ...]:
        return (3,)

    def run(self, row: str, seed: int) -> tuple[int, ...]:
        return (seed, 4)


def test_a_plain_cell_is_the_value_alone_and_a_cut_file_is_named(tmp_path: Path) -> None:
    trial = PlainToy(tmp_path)
    assert trial.read("only", 3) is None
    assert trial.cell("only", 3) == [3, 4] == trial.stored()["only"][3]
    path = trial.path("only", 3)
    assert json.loads(path.read_text(encoding="utf-8")) == [3, 4]
    trial.write("only", 3, [3, 5])
    assert trial.cell("only", 3) == [3, 5]  # stored: not run again
    path.write_text("[3,", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"only-3\.json holds no outcome .* remove it"):
        trial.cell("only", 3)


def test_a_side_of_one_seed_is_paired_with_every_seed_of_the_other() -> None:
    def counts(right: str) -> np.ndarray:
        return counts_of_digits(right, list("abcd"))

    ours, theirs = {0: counts("1100"), 1: counts("1110")}, {0: counts("1000")}
    effect = paired_effect(ours, theirs)
    assert (effect.n_seeds, effect.n_items) == (2, 4)
    assert effect.estimate == mean_effect(ours.values()).estimate - 0.25 == 0.375
    several = {1: counts("1000"), 2: counts("0000")}
    assert paired_effect(ours, several).n_seeds == 1  # the seed that both have


def test_a_page_has_its_command_and_what_is_not_empty() -> None:
    table = Table(("row", "score"), [["a", "1"]])
    page = page_of("Title", "command", "About. ", "", Table(("row",), []), table)
    assert page == "# Title\n\n`command`\n\nAbout.\n\n| row | score |\n|---|---|\n| a | 1 |\n"
    assert page_of("Title", "", "About.") == "# Title\n\nAbout.\n"
