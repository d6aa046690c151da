"""`precision: auto`: the faster one on this machine, in every step, kept when a run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kept.lab.comparison.data import on_this_machine
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import asks_questions, shipped_experiments
from kept.lab.study.addresses import binding_of
from kept.training import precision
from kept.training.finetuning.recipes import with_defaults
from kept.training.loop import Resume, TrainResult, train
from kept.training.precision import PrecisionChoice, faster_precision, step_seconds
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_run import Watcher
from tests.kept.training.training_toy import toy_config, toy_model, weights_hash


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretends that a step in bfloat16 takes so many seconds, and one in float32 one second."""

    def pretend(bf16: float) -> None:
        seconds = {"fp32": 1.0, "bf16": bf16}
        monkeypatch.setattr(precision, "step_seconds", lambda _: seconds)
        faster_precision.cache_clear()

    yield pretend
    faster_precision.cache_clear()


def trained(
    folder: Path, stop_at: int | None = None, resume: Resume = Resume.NEVER, **settings: Any
) -> tuple[TrainResult, str, set[bool], list[str]]:
    """How a toy run ended, its weights, whether its steps were autocast, and what it said."""
    model, watcher, seen = toy_model(), Watcher(), set[bool]()
    model.dropout.register_forward_hook(
        lambda *_: seen.add(torch.is_autocast_enabled("cpu")) or None
    )
    steps = iter(range(1, 100))
    result = train(
        model, ToyData(), toy_config(**settings), folder, reporter=watcher, resume=resume,
        should_stop=lambda: next(steps) == stop_at,
    )  # fmt: skip
    return result, weights_hash(model), seen, watcher.notices


@pytest.mark.parametrize(
    ("bf16", "expected", "says"),
    [
        (0.25, "bf16", "precision: bf16 (a step in bf16 is 4.0 times as fast as one in fp32 here)"),
        (0.9, "fp32", "precision: fp32 (a step in bf16 is 1.1 times as fast as one in fp32 here)"),
        (7.0, "fp32", "precision: fp32 (a step in bf16 is 7.0 times as slow as one in fp32 here)"),
    ],
)
def test_a_run_computes_in_the_faster_precision_and_says_so(
    tmp_path: Path, machine: Any, bf16: float, expected: str, says: str
) -> None:
    machine(bf16)
    result, weights, autocast, notices = trained(tmp_path / "auto", precision="auto")
    assert result.precision == expected
    assert autocast == {expected == "bf16"}
    assert says in notices
    assert weights == trained(tmp_path / "named", precision=expected)[1]


def test_a_resumed_run_goes_on_in_the_precision_that_it_began_with(
    tmp_path: Path, machine: Any
) -> None:
    machine(0.2)
    whole = trained(tmp_path / "whole", precision="auto")[1]
    trained(tmp_path / "cut", stop_at=6, precision="auto")
    machine(7.0)  # the same folder on a processor without such instructions
    result, weights, autocast, _ = trained(tmp_path / "cut", resume=Resume.LATEST, precision="auto")
    assert (result.precision, weights, autocast) == ("bf16", whole, {True})


def test_a_measured_step_leaves_rng_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    seconds = step_seconds(torch.device("cpu"))
    assert all(value > 0 for value in seconds.values())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert str(PrecisionChoice("fp32")) == "precision: fp32"


def test_new_runs_leave_the_precision_to_the_machine() -> None:
    fields = {"task": "typing", "method": "kbert", "training": {"steps": 2}}
    assert with_defaults(fields)["training"]["precision"] == "auto"
    named = {**fields, "training": {"steps": 2, "precision": "fp32"}}
    assert with_defaults(named)["training"]["precision"] == "fp32"
    published = with_defaults({**fields, "as_published": True})
    assert "precision" not in published["training"]


def test_shipped_tasks_that_name_bf16_keep_their_addresses_and_run_in_what_is_faster() -> None:
    """What an address holds is the file's word; how it is trained is what this machine is for."""
    names = []
    for name, path in shipped_experiments().items():
        if asks_questions(path):
            continue
        experiment = Experiment.read(path)
        plan = experiment.pretraining
        named = dict(experiment.task.get("training", {}))
        if named.get("precision") == "bf16":
            names.append(name)
            training = toy_config(precision="bf16")
            assert binding_of(training)["precision"] == "bf16"
            assert on_this_machine(training).precision == "auto"
        if plan is not None and plan.training.precision == "bf16":
            assert binding_of(plan.training)["precision"] == "bf16"
            assert on_this_machine(plan.training).precision == "auto"
    assert len(names) >= 13


def test_an_open_precision_is_no_part_of_an_address() -> None:
    assert binding_of(toy_config(precision="auto")) == binding_of(toy_config())


def test_a_slow_precision_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where bfloat16 takes ten times as long, all turns would take half a second."""
    calls: list[str] = []

    def seconds(_layer: object, _words: object, name: str) -> float:
        calls.append(name)
        return {"fp32": 0.013, "bf16": 0.13}[name]

    monkeypatch.setattr(precision, "_seconds", seconds)
    assert step_seconds(torch.device("cpu")) == {"fp32": 0.013, "bf16": 0.13}
    assert calls == ["fp32", "bf16"]
