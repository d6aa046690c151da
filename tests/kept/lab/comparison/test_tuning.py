"""Rates chosen by each row, and what each seed draws anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kept.errors import CheckpointError
from kept.lab.comparison import tuning
from kept.lab.comparison.experiment import Experiment, Tuning
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.comparison.tuning import (
    Choice,
    read_choices,
    trial_experiment,
    tune,
    with_chosen_rates,
)
from kept.lab.study.design import RunKey
from kept.lab.study.run import Study
from kept.training.finetuning.assembly import read_sets

PLAN = Tuning(learning_rates=(0.01, 0.001, 0.1), budgets=(0.5, 1.0), share=0.3)


@pytest.fixture
def with_plan(experiment: Experiment) -> Experiment:
    return experiment.model_copy(update={"tuning": PLAN, "pretraining": None})


def test_what_a_table_reports_is_not_read_by_a_trial(
    with_plan: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    """Trials ask a share of the training file; no text of dev is trained on or asked."""
    study = Study(ComparisonTrial(with_plan, experiment_root, tmp_path / "own"))
    trial = trial_experiment(with_plan, {"learning_rate": 0.1}, 0.5)
    runs = Study(ComparisonTrial(trial, experiment_root, tmp_path / "trial"))
    key = RunKey("ernie", "true", 0)
    reported = {
        e.linked.text for e in read_sets(study.trial.config(key), study.trial.data.graph)[0]["dev"]
    }
    sets = read_sets(runs.trial.config(key), runs.trial.data.graph)[0]
    train = {e.linked.text for e in study.trial.data.examples["train"]}
    for name in ("train", "dev"):
        texts = {e.linked.text for e in sets[name]}
        assert texts <= train
        assert not texts & reported - train
    assert runs.trial.data.files.keys() == {"train"}
    training = runs.trial.config(key).training
    assert (training.learning_rate, training.steps) == (0.1, 1)


def test_halving_is_blind_to_which_knowledge_is_true(
    with_plan: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Means by hand: 0.001 is best on the mean of both kinds, 0.1 with true knowledge alone."""
    scores: dict[tuple[str, float], float] = {
        ("true", 0.01): 0.5, ("shuffled", 0.01): 0.5, ("true", 0.001): 0.6,
        ("shuffled", 0.001): 0.7, ("true", 0.1): 0.9, ("shuffled", 0.1): 0.2,
        ("off", 0.01): 0.3, ("off", 0.001): 0.2, ("off", 0.1): 0.1,
    }  # fmt: skip
    trials: list[tuple[str, float, int, int]] = []

    class Runs:
        def __init__(self, experiment: Experiment, *_: Any) -> None:
            self.training = experiment.task["training"]

        def record(self, key: RunKey) -> float:
            steps = self.training["steps"]
            trials.append((key.method, self.training["learning_rate"], steps, key.seed))
            return scores[key.knowledge, self.training["learning_rate"]]

    class Reader:
        def __init__(self, _: Any) -> None: ...

        def counts(self, record: float) -> float:
            return record

        def score(self, counts: float) -> float:
            return counts

    monkeypatch.setattr(tuning, "ComparisonTrial", Runs)
    monkeypatch.setattr(tuning, "Study", lambda trial: trial)
    monkeypatch.setattr(tuning, "Judge", Reader)
    tuned = tune(
        with_plan, root=tmp_path, folder=tmp_path, methods=["ernie"], controls=["shuffled"]
    )
    assert tuned is not None
    assert tuned["ernie"].training == {"learning_rate": 0.001}
    assert tuned["none"].training == {"learning_rate": 0.01}
    tuned_trials = [
        (t["learning_rate"], t["budget"], round(t["score"], 3)) for t in tuned["ernie"].trials
    ]
    assert tuned_trials[:3] == [(0.01, 0.5, 0.5), (0.001, 0.5, 0.65), (0.1, 0.5, 0.55)]
    assert tuned_trials[3:] == [(0.001, 1.0, 0.65), (0.1, 1.0, 0.55)]
    assert {steps for *_, steps, _ in trials} == {1, 2}
    by_row = [sum(name == each[0] for each in trials) for name in ("none", "ernie")]
    assert by_row == [10, 10]  # as many runs for none, with a second seed
    assert {seed for name, *_, seed in trials if name == "none"} == {0, 1}
    assert read_choices(with_plan, tmp_path) == tuned
    tune(with_plan, root=tmp_path, folder=tmp_path, methods=["kbert"], controls=["shuffled"])
    after = read_choices(with_plan, tmp_path)
    assert after is not None
    assert after.keys() == {"none", "ernie", "kbert"}, "another command's rows are kept"
    (path,) = (tmp_path / "tuning").glob("*.json")
    path.write_text("[]")
    with pytest.raises(CheckpointError, match="no choice of rates"):
        read_choices(with_plan, tmp_path)


def test_addresses_stay_without_tuning_and_redrawing(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    def name(key: RunKey, **changes: Any) -> str:
        changed = experiment.model_copy(update=changes)
        return Study(ComparisonTrial(changed, experiment_root, tmp_path)).of(key).name

    for seed in (0, 1):
        for kind in ("true", "shuffled"):
            key = RunKey("ernie", kind, seed)  # type: ignore[arg-type]
            assert name(key) == name(key, tuning=PLAN)
            assert (name(key) == name(key, redrawn=("first stage",))) == (seed == 0)
            assert (name(key) == name(key, redrawn=("controls",))) == (seed == 0)
    key = RunKey("ernie", "true", 0)
    chosen = {"ernie": Choice({"learning_rate": 0.01}, [])}
    assert name(key) == name(
        key, methods=with_chosen_rates(experiment, chosen).methods
    )  # the common rate
    other = {"ernie": Choice({"learning_rate": 0.02}, [])}
    assert name(key) != name(key, methods=with_chosen_rates(experiment, other).methods)


def test_a_seed_has_a_first_stage_and_a_shuffle_of_its_own(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    """Stages of kbert with shuffled objects: shared by seeds, or drawn anew by what is named."""

    def stages(*redrawn: str) -> int:
        changed = experiment.model_copy(update={"redrawn": redrawn})
        runs = Study(
            ComparisonTrial(changed, experiment_root, tmp_path / "-".join(("r", *redrawn)))
        )
        records = [runs.run(RunKey("kbert", "shuffled", seed)) for seed in (0, 1)]
        return len({record.costs["pretraining"] for record in records if record is not None})

    assert (stages(), stages("first stage"), stages("controls")) == (1, 2, 2)


def test_the_command_chooses_rates_and_shows_the_common_one(
    experiment: Experiment, experiment_root: Path, tmp_path: Path
) -> None:
    import yaml
    from typer.testing import CliRunner

    from kept.apps.cli import app

    plan = {"learning_rates": [0.02, 0.005], "budgets": [1.0], "share": 0.3}
    values = json.loads(experiment.model_dump_json(exclude={"pretraining"}))
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(values | {"tuning": plan, "methods": {"kbert": {}}}))
    flags = ["--task", str(file), "--data", str(experiment_root)]
    more = ["--controls", "shuffled", "--seeds", "1", "-o", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, ["compare", *flags, *more])
    assert done.exit_code == 0, done.output
    chosen = json.loads((tmp_path / "runs/tiny-tuned.json").read_text())
    assert [(cells["method"], cells["knowledge"]) for cells in chosen["rates"]] == [
        ("none", "off"), ("K-BERT", "true"), ("K-BERT", "shuffled"),
    ]  # fmt: skip
    assert {cells["trials"] for cells in chosen["rates"]} == {"2"}
    page = (tmp_path / "runs/tiny-tuned.md").read_text()
    assert "| at the common rate |" in page.partition("## Learning rates")[2]
    assert json.loads((tmp_path / "runs/tiny.json").read_text())["rates"] == []
    reported = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), *flags])
    assert reported.exit_code == 0, reported.output
    assert "Chosen by each row" in (tmp_path / "runs/tiny-tuned.html").read_text()
