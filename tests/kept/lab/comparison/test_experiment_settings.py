"""What an experiment's file may ask for, and what is refused before the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kept.apps.cli.comparing.compare_run import control_names
from kept.errors import (
    ConfigError,
)
from kept.lab import comparison
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import find_experiment
from kept.lab.comparison.find import method_names
from kept.lab.study.store import read_records
from kept.methods import METHODS
from tests.kept.tiny_hosts import tiny_host


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": {"other-kg": {"method": "kbert", "kg": "nowhere"}}}, "other-kg.kg: the same"),
        ({"methods": {"ernie": {"dev": "x", "test": "y"}}}, "ernie.dev: .*; ernie.test: .* task"),
        ({"methods": {"ernie": {"knowledge": "off"}}}, "ernie.knowledge: .* --controls"),
        ({"methods": {"ernie": {"training": {"seed": 3}}}}, "ernie.training.seed: .* --seeds"),
        ({"methods": {"ernie": {"max_asked": 3}}}, "ernie.max_asked: the same for all rows"),
        ({"task.knowledge": "off", "task.training.seed": 1}, "knowledge: .*; training.seed: "),
        ({"task.method": "kbert"}, "method: give the rows"),
        ({"asked": "test"}, "asked: the task has no test set; .*test_share"),
        ({"asked": "tset"}, "asked: .*'dev' or 'test'"),
        ({"metric": "macro"}, "metric: .*'accuracy', 'micro', 'official'"),
        ({"metric": "official"}, "metric: format wiki80 has no official score"),
    ],
)
def test_what_would_be_overwritten_or_fail_late_is_refused_when_read(
    changes: dict[str, Any], message: str, experiment_root: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        Experiment.read(experiment_root / "tiny.yaml", changes)


def test_the_last_rows_settings_are_read_before_the_first_run(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    rows: dict[str, Any] = {"none": {}, "late": {"method": "kbert", "view": {"soft": True}}}
    faulty = experiment.model_copy(update={"methods": rows})
    options: dict[str, Any] = {
        "root": experiment_root,
        "folder": tmp_path,
        "controls": [],
        "seeds": 1,
    }
    with pytest.raises(ConfigError, match="no option 'soft'"):
        compare(faulty, methods=["none", "late"], **options)
    assert read_records(tmp_path) == {}


def test_a_row_may_differ_in_how_it_is_trained(experiment_root: Path) -> None:
    methods = {"ernie": {"training": {"steps": 3}, "max_train": 9}, "kbert": {"knowledge": None}}
    experiment_ = Experiment.read(
        experiment_root / "tiny.yaml", {"methods": methods, "task.test_share": 0.2}
    )
    assert experiment_.methods["ernie"]["max_train"] == 9
    assert Experiment.read(experiment_root / "tiny.yaml", {"asked": "test", "task.test_share": 0.2})


def test_texts_are_as_long_as_the_host_takes_them(experiment_root: Path, tmp_path: Path) -> None:
    tiny_host(n_words=120, n_positions=40).save_pretrained(tmp_path / "host")
    on_host = {"task.host": str(tmp_path / "host"), "as_published": False}
    short = Experiment.read(experiment_root / "tiny.yaml", {**on_host, "task.graph": {}})
    assert short.row("none")["graph"] == {"max_words": 40, "max_nodes": 80}
    assert short.row("colake")["graph"]["max_words"] == 38, "two positions are the view's"
    experiment_ = Experiment.read(experiment_root / "tiny.yaml", {"task.graph": {"max_words": 24}})
    assert experiment_.row("none")["graph"]["max_words"] == 24
    published = {**on_host, "task.graph": {}, "as_published": True}
    assert Experiment.read(experiment_root / "tiny.yaml", published).row("none")["graph"] == {}


def test_names_of_methods_are_checked() -> None:
    assert method_names("all") == tuple(METHODS)
    with pytest.raises(ConfigError, match="no method 'kbird'"):
        method_names("ernie,kbird")
    with pytest.raises(ConfigError, match="comma-separated names"):
        method_names(",")


def test_names_that_are_none_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"that ships with kept: .*wiki80"):
        find_experiment("nothing")
    with pytest.raises(ConfigError, match="no control 'of'"):
        control_names("of")
    assert control_names("") == ()


def test_a_file_that_gives_lengths_keeps_them() -> None:
    """The shipped task has them, so its runs have the addresses that they had."""
    file = Path(comparison.__file__).parent / "tasks/csqa.yaml"
    row = Experiment.read(file).row("kbert")
    assert row["view"] == {"max_branches": 8}
    assert (row["graph"]["max_words"], row["graph"]["max_nodes"]) == (64, 256)
