"""A whole training of the toy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kept.training.log import StepRecord
from kept.training.loop import Resume, train
from tests.kept.training.stream_toy import ToyData
from tests.kept.training.training_toy import toy_config, toy_model, weights_hash


class Watcher:
    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.notices: list[str] = []

    def step(self, record: StepRecord) -> None:
        self.records.append(record)

    def notice(self, message: str) -> None:
        self.notices.append(message)


def run(folder: Path, *, resume: Resume = Resume.NEVER, stop_at: int = 99, **changes: Any) -> str:
    model, watcher = toy_model(), Watcher()
    train(
        model, ToyData(), toy_config(**changes), folder, reporter=watcher, resume=resume,
        should_stop=lambda: watcher.records[-1].step >= stop_at,
    )  # fmt: skip
    return weights_hash(model)
