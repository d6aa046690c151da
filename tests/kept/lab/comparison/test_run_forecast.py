"""A comparison's forecast is of what its runs compute, counted in nodes, not in runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from kept.heads.model import KnowledgeForTask
from kept.lab.comparison import trial as runs_module
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.comparison.work import BACKWARD, RunWork, work_of_runs
from kept.lab.study.design import RunKey, planned_runs
from kept.lab.study.forecast import OneRun, RunForecast
from kept.lab.study.run import Study
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.costs import StepClock
from kept.training.log import StepRecord

NEAR = 0.2
"""How far a forecast may be off, as a share."""


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The units that models compute: nodes in evaluation, three times as many in training."""
    units = [0.0]

    def count(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, KnowledgeForTask | KnowledgeForPreTraining):
            times = BACKWARD if module.training else 1
            units[0] += times * int(inputs[0].node_mask.sum())

    monkeypatch.setattr(runs_module, "sentence_milliseconds", lambda *_: 1.0)
    hook = nn.modules.module.register_module_forward_pre_hook(count)
    try:
        yield units
    finally:
        hook.remove()


@pytest.mark.parametrize("kind", ["task alone", "a stage that seeds share", "evaluated often"])
def test_a_forecast_counts_what_the_runs_compute(
    experiment: Experiment,
    experiment_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Of every kind: methods with other graphs, a control that is the baseline, two seeds."""
    task = dict(experiment.task)
    update: dict[str, Any] = {}
    if kind != "a stage that seeds share":
        update["pretraining"] = None
    if kind == "evaluated often":
        task["training"] = {**task["training"], "steps": None, "epochs": 2, "evaluate_every": 5}
    plan = experiment.model_copy(update=update | {"task": task})
    methods, controls = ["none", "kbert", "colake"], ["off", "shuffled"]
    runs = Study(ComparisonTrial(plan, experiment_root, tmp_path))
    keys = list(planned_runs(methods, controls, 2))  # type: ignore[arg-type]
    works = work_of_runs(runs, keys)
    expected = sum(work.units for work in works.values())
    with counting(monkeypatch) as units:
        compare(
            plan, root=experiment_root, folder=tmp_path, methods=methods, controls=controls,  # type: ignore[arg-type]
            seeds=2,
        )  # fmt: skip
    assert expected == pytest.approx(units[0], rel=NEAR)
    copies = [key for key, work in works.items() if not work.units]
    assert copies == [key for key in keys if (key.method, key.knowledge) == ("kbert", "off")]
    staged = [key for key, work in works.items() if work.stage]
    assert all(key.seed == 0 for key in staged)
    assert bool(staged) is (plan.pretraining is not None)
    assert not work_of_runs(Study(ComparisonTrial(plan, experiment_root, tmp_path)), keys)


def record(step: int, n_steps: int) -> StepRecord:
    return StepRecord(
        step=step, n_steps=n_steps, epoch=0, losses={}, total_loss=0.0, gradient_norm=None,
        row_gradient_norm=None, learning_rate=0.0, nodes_per_second=1.0, texts_per_second=1.0,
        peak_memory_mib=1.0, seconds=0.0,
    )  # fmt: skip


def forecast_of(*times: float, reporter: Any = None) -> tuple[RunForecast, list[str]]:
    lines: list[str] = []
    clock = StepClock(measured=2, now=iter([0.0, *times]).__next__)
    return RunForecast(reporter, lines.append, lambda: clock), lines


def test_a_comparison_has_one_forecast_for_all_its_runs() -> None:
    keys = list(planned_runs(["kbert"], ["off", "shuffled"], 1))
    forecast, lines = forecast_of(50.0, 53.0, 56.0, 59.0)
    works = (RunWork(0, 100, 60), RunWork(0, 200, 60), RunWork(), RunWork(300, 200, 60))
    forecast.of(dict(zip(keys, works, strict=True)))
    forecast.begin(keys[0])
    for step in range(1, 5):
        forecast.step(record(step, 103))
    assert len(lines) == 1
    assert "5.0 minutes for the rest of this training" in lines[0]
    # 103 steps of 3 s read 300 units; there are 2580, and three steps are done
    runs = "3 runs to be made (none; kbert with knowledge true, shuffled)"
    assert f"44.1 minutes for the {runs}, evaluation included" in lines[0]
    forecast.end(keys[0], 400.0)
    assert forecast.seconds_left() == pytest.approx((660 + 1560) * 400 / 360)


def test_what_runs_took_corrects_the_forecast_of_runs_like_them() -> None:
    keys = list(planned_runs(["kbert"], [], 2))
    forecast, _ = forecast_of(1.0)
    forecast.of({key: RunWork(0, 100, 0) for key in keys})
    assert forecast.left() == ""
    for key, seconds in zip(keys[:2], (100.0, 900.0), strict=True):
        forecast.begin(key)
        forecast.end(key, seconds)
    assert forecast.seconds_left() == 1000.0
    forecast.end(keys[2], None)  # left out
    assert forecast.seconds_left() == 900.0
    assert forecast.left() == ", about 15.0 minutes left"


def test_short_comparisons_have_no_forecast_and_records_are_handed_on() -> None:
    got: list[Any] = []

    class Bar:
        def step(self, record: StepRecord) -> None:
            got.append(record.step)

        def notice(self, message: str) -> None:
            got.append(message)

    forecast, lines = forecast_of(1.0, 1.1, 1.2, reporter=Bar())
    forecast.of({RunKey("none", "off", seed): OneRun() for seed in range(2)})
    forecast.begin(RunKey("none", "off", 0))
    for step in (1, 2, 3):
        forecast.step(record(step, 10))
    forecast.notice("resumed")
    assert (lines, got) == ([], [1, 2, 3, "resumed"])


def test_a_comparison_forecasts_by_what_its_runs_compute(
    experiment: Experiment, experiment_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by their number: a run of a large graph takes as long as several."""
    monkeypatch.setattr(runs_module, "sentence_milliseconds", lambda *_: 1.0)
    work: list[Any] = []

    def note(self: RunForecast, of_runs: Any) -> None:
        work.extend(of_runs.values())

    monkeypatch.setattr(RunForecast, "of", note)
    compare(
        experiment, root=experiment_root, folder=tmp_path / "runs", methods=["ernie"], controls=[],
        seeds=1, should_stop=lambda: True,
    )  # fmt: skip
    assert len(work) == 2
    assert all(isinstance(each, RunWork) and each.units > 1 for each in work)
