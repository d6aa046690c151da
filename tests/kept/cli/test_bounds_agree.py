"""The least that the help of an option names is taken by the configuration behind it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from typer.main import get_command

from kept.cli import app
from kept.training.config import TrainConfig

FIELDS = {
    "learning_rate": "learning_rate", "entity_learning_rate": "entity_learning_rate",
    "warmup_steps": "warmup_steps", "steps": "steps", "epochs": "epochs",
    "batch_size": "batch_size", "node_budget": "node_budget", "threads": "threads",
    "workers": "workers", "seed": "seed", "budget_minutes": "budget_minutes",
    "evaluate_every": "evaluate_every",
}  # fmt: skip
"""From the parameters of commands that train to the fields of `TrainConfig` that they set."""


def options() -> list[Any]:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    return [
        pytest.param(option, id=f"{name}-{option.name}")
        for name in ("finetune", "pretrain")
        for option in commands[name].params
        if option.name in FIELDS and getattr(option, "min", None) is not None
    ]


def configuration(field: str, value: float) -> TrainConfig:
    lengths = {} if field == "epochs" else {"steps": 10}
    sizes = {} if field == "node_budget" else {"batch_size": 2}
    return TrainConfig.model_validate({**lengths, **sizes, field: value})


@pytest.mark.parametrize("option", options())
def test_help_and_configuration_have_the_same_bounds(option: Any) -> None:
    field = FIELDS[option.name]
    configuration(field, option.min)
    if field != "warmup_steps":  # which is bounded by the length of the run
        configuration(field, option.max)
    below = -1 if option.min == 0 else 0
    with pytest.raises(ValidationError):
        configuration(field, below)


def test_every_field_is_compared() -> None:
    assert len(options()) >= 18
