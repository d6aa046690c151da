"""`kept compare` of an experiment by two processes: the runs of one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.lab.study.store import read_records
from kept.training.finetuning.answers import ANSWERS
from tests.kept.rounding import of_run, require_same_training
from tests.kept.training.test_processes import finish, start
from tests.kept.training.test_shards import without_dropout


@pytest.mark.slow
def test_two_processes_compare_what_one_compares(experiment_root: Path, tmp_path: Path) -> None:
    """With a first stage, rates that are chosen, a run that is the baseline's, and a control."""
    shutil.copytree(experiment_root, tmp_path / "root")
    experiment = yaml.safe_load((tmp_path / "root/tiny.yaml").read_text())
    shutil.copytree(experiment["task"]["host"], tmp_path / "host")
    without_dropout(tmp_path / "host/config.json")
    experiment["task"] |= {"host": str(tmp_path / "host"), "head_options": {"dropout": 0.0}}
    experiment["task"]["training"] |= {"evaluate_every": 1, "device": "cpu", "threads": 1}
    experiment["tuning"] = {"learning_rates": [0.01, 0.02], "budgets": [1.0], "share": 0.3}
    (tmp_path / "root/tiny.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")

    def words(output: str) -> list[str]:
        return [
            "compare", "--task", str(tmp_path / "root/tiny.yaml"), "--data", str(tmp_path / "root"),
            "--methods", "kbert", "--controls", "off,shuffled", "--seeds", "1", "--threads", "1",
            "-o", str(tmp_path / output),
        ]  # fmt: skip

    ended = CliRunner().invoke(app, words("one"))
    assert ended.exit_code == 0, ended.output
    command = ["-m", "kept", *words("two")]
    (code, output), (other, silent) = finish(start(command, 2))
    assert (code, other) == (0, 0), output + silent
    assert "tables in" in output
    assert "tables in" not in silent
    for folder in (".", "tuning"):
        one, two = tmp_path / "one" / folder, tmp_path / "two" / folder
        mine, theirs = read_records(one), read_records(two)
        assert mine.keys() == theirs.keys()
        assert len(mine) >= 4
        for name, record in mine.items():
            assert theirs[name].scores == record.scores
            assert (two / name / ANSWERS).read_text() == (one / name / ANSWERS).read_text()
    (mine_path, *others), (their_path, *_) = (
        sorted((tmp_path / name / "tuning").glob("tiny-*.json")) for name in ("one", "two")
    )
    assert not others
    assert json.loads(mine_path.read_text()) == json.loads(their_path.read_text())
    stages = sorted((tmp_path / "one/pretrained").glob("*/model.safetensors"))
    assert len(stages) >= 3
    for path in stages:
        expected = load_file(path)
        weights = load_file(tmp_path / "two" / path.relative_to(tmp_path / "one"))
        require_same_training(weights, expected, **of_run(path.parent))
