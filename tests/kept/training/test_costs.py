"""What a training is said to take is what it takes: bytes counted, minutes by a false clock."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from kept.errors import ConfigError
from kept.training.config import TrainConfig
from kept.training.costs import (
    GIB,
    MemoryForecast,
    StepClock,
    free_memory,
    memory_forecast,
    require_memory,
)
from kept.training.log import StepRecord
from kept.training.optimisers import make_optimisers
from kept.training.stream import BatchStream
from tests.kept.training.stream_toy import ToyData


class Model(nn.Module):
    """A dense part, a frozen one, a sparse table and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.frozen = nn.Linear(7, 5), nn.Linear(5, 3)
        self.table = nn.Embedding(40, 7, sparse=True)
        self.register_buffer("ids", torch.arange(11))
        self.frozen.requires_grad_(False)

    def forward(self, rows: Tensor) -> Tensor:
        total: Tensor = self.frozen(self.dense(self.table(rows))).sum()
        return total


@pytest.mark.parametrize("row_optimiser", ["adam", "adagrad"])
@pytest.mark.parametrize(
    "averaging", [None, {"steps": "all", "publish": True}, {"steps": 3, "publish": True}]
)
def test_a_forecast_of_memory_holds(row_optimiser: Any, averaging: Any) -> None:
    model = Model()
    config = TrainConfig(
        steps=4, batch_size=1, row_optimiser=row_optimiser, averaging=averaging
    )  # fmt: skip
    forecast = memory_forecast(model, config)
    optimisers = make_optimisers(model, config)
    for _ in range(3):
        model.zero_grad()
        model(torch.tensor([1, 2])).backward()
        for optimiser in optimisers.values():
            optimiser.step()
    held = [*model.parameters(), *model.buffers()]
    assert forecast.weights == sum(each.nbytes for each in held)
    dense = [p.grad for p in model.parameters() if p.grad is not None and not p.grad.is_sparse]
    assert forecast.gradients == sum(grad.nbytes for grad in dense)
    states = [
        value
        for optimiser in optimisers.values()
        for state in optimiser.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.numel() > 1  # counters of steps are numbers
    ]
    assert forecast.optimiser == sum(value.nbytes for value in states)


def test_too_little_memory_is_refused_before_it_is_taken() -> None:
    forecast = MemoryForecast(weights=3 * GIB, gradients=GIB, optimiser=2 * GIB)
    require_memory(forecast, 3 * GIB)
    require_memory(forecast, None)
    with pytest.raises(ConfigError, match=r"3\.00 GiB more than the weights.*2\.99.*adagrad"):
        require_memory(forecast, 3 * GIB - (10 << 20))


def test_free_memory_is_what_linux_says(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:   5 kB\n")
    assert free_memory(tmp_path / "meminfo") == 5120
    (tmp_path / "other").write_text("MemTotal: 9 kB\n")
    assert free_memory(tmp_path / "other") is None
    assert free_memory(tmp_path / "none") is None


def record(step: int, n_steps: int) -> StepRecord:
    return StepRecord(
        step=step, n_steps=n_steps, epoch=0, losses={}, total_loss=0.0, gradient_norm=None,
        row_gradient_norm=None, learning_rate=0.0, nodes_per_second=1.0, texts_per_second=1.0,
        peak_memory_mib=1.0, seconds=0.0,
    )  # fmt: skip


def clock(*times: float, measured: int = 2) -> StepClock:
    return StepClock(measured=measured, now=iter([0.0, *times]).__next__)


class Lengths(ToyData):
    """Texts as long as sentences are."""

    def n_nodes(self, index: int) -> int:
        return 8 + index * 7 % 37


def test_batches_by_length_leave_the_forecast_within_a_fifth() -> None:
    """Where a step takes as long as its batch: of thirty orders, nine in ten."""
    errors = []
    for seed in range(30):
        data = Lengths(n_samples=1280)
        stream = BatchStream(data, seed=seed, batch_size=16, by_length=True)
        batches = [stream.locate(number)[1] for number in range(stream.n_batches(0))]
        seconds = [float(sum(map(data.n_nodes, batch))) for batch in batches]
        ends = np.cumsum([0.0, *seconds])
        clock = StepClock(now=iter(ends.tolist()).__next__)
        left = [clock.passed(step, len(seconds)) for step in range(1, len(seconds))]
        (step, forecast), *further = [(n, each) for n, each in enumerate(left, 1) if each]
        assert not further
        errors.append(abs(forecast / sum(seconds[step:]) - 1))
    assert np.quantile(errors, 0.9) < 0.2


def test_the_bar_foretells_once_where_it_is_asked_to(capsys: pytest.CaptureFixture[str]) -> None:
    from kept.apps.cli.console import TerminalConsole
    from kept.apps.cli.progress import TrainingProgress

    for foretells in (True, False):
        with TrainingProgress(TerminalConsole(), foretells=foretells) as bar:
            if foretells:
                bar._clock = clock(9.0, 11.0, 13.0, 15.0)
            for step in range(1, 5):
                bar.step(dataclasses.replace(record(step, 93), peak_memory_mib=2048.0))
        output = " ".join(capsys.readouterr().out.split())
        assert ("forecast: 3.0 minutes for the 90 steps that are left; 2.00 GiB" in output) == (
            foretells
        )
