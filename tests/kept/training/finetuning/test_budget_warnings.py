"""A training too short for its method to read a fact says so before its first step."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import kept
from kept.apps.cli import app
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.methods import METHODS
from tests.kept.lab.fitting.private_worlds import roles

NEEDED = {name: line.recipe.examples for name, line in METHODS.items() if line.recipe.examples}


@pytest.mark.parametrize("name", NEEDED)
def test_finetune_says_it_before_it_trains(name: str, host: Path, tmp_path: Path) -> None:
    kg, data = roles(24, 0).write(tmp_path)
    arguments = [
        "finetune", "--task", "mention", "--format", "table", "--train", str(data), "--kg", str(kg),
        "--method", name, "--host", str(host), "--link", "--steps", "1", "--batch-size", "2",
        "-o", str(tmp_path / "run"),
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    output = " ".join(done.output.split())
    warning = f"read {NEEDED[name]:,} examples in the reading control before it answered"
    assert warning in output
    assert "this run reads 2, and may end" in output
    assert output.index(warning) < output.index("step 1 of 1")


def test_fit_says_it_of_each_trial(host: Path, tmp_path: Path) -> None:
    kg, data = roles(40, 0).write(tmp_path)
    done = kept.fit(
        data, kg=kg, output=tmp_path / "run", host=str(host), methods="kbert", budget=0.001
    )
    assert done["method"]
    arguments = [
        "fit", str(data), "--kg", str(kg), "-o", str(tmp_path / "again"), "--host", str(host),
        "--methods", "kbert", "--budget", "0.001",
    ]  # fmt: skip
    printed = " ".join(CliRunner().invoke(app, arguments).output.split())
    assert "kbert: K-BERT read 960 examples in the reading control" in printed
    assert "this run reads 640" in printed


def test_compare_says_it_of_a_row_with_a_recipe(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    notices: list[str] = []

    class RecordingReporter:
        def step(self, record: object) -> None: ...

        def notice(self, message: str) -> None:
            notices.append(message)

    for as_published in (True, False):
        notices.clear()
        small = experiment.model_copy(update={"as_published": as_published, "pretraining": None})
        compare(
            small, root=experiment_root, folder=tmp_path / str(as_published), methods=["ernie"],
            controls=(), seeds=1, reporter=RecordingReporter(),
        )  # fmt: skip
        lines = [line for line in notices if "ERNIE read 640 examples" in line]
        assert len(lines) == (0 if as_published else 1)
