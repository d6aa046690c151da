"""The committed configurations load, name known scorers and run on toy data."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import yaml

from kept.kge import SCORERS, TrainingConfig
from kept.kge.splits import read_splits

FOLDER = Path(__file__).parents[2] / "experiments" / "kg_completion"
SCRIPT = runpy.run_path(str(FOLDER / "__main__.py"))  # experiments are not an installed package
PLANS = sorted(FOLDER.glob("*.yaml"))


def test_there_is_a_plan():
    assert PLANS


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_loads_and_runs(path: Path, tmp_path: Path):
    plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(plan["scorers"]) == set(SCORERS)
    lines = [f"e{i}\tr{i % 2}\te{(i * 7 + 3) % 20}" for i in range(40)]
    for name, part in {"train": lines[:30], "valid": lines[30:35], "test": lines[35:]}.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(part))
    splits = read_splits(tmp_path, holdout=0.1, seed=0)
    told = {"dataset": "toy", "seed": 0, "command": "none", "scorers": {}}
    for name, scorer_plan in plan["scorers"].items():
        TrainingConfig(**scorer_plan["training"])
        scorer_plan["training"] |= {"n_epochs": 2, "validate_every": 1}
        told["scorers"][name] = SCRIPT["run_scorer"](name, scorer_plan, splits, seed=0)
        assert told["scorers"][name]["conditions"]["n_scored"] == 10
    page = SCRIPT["as_markdown"](told, plan["published"], plan["differs"], "no audit")
    assert "0.465 / 0.372 / 0.646" in page
