"""`Experiment`: a task as one YAML file, and `RunRecord`: what a finished run leaves.

An experiment names data, knowledge, training, and the published numbers; a run of it is one method
with one kind of knowledge and one seed. Paths in the file are relative to the folder that the
variable KEPT_DATA names, unless absolute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from kept.methods import METHODS, method, title
from kept.tasks.controls import Knowledge
from kept.training.config import RunConfig, TrainConfig


def all_methods() -> dict[str, dict[str, Any]]:
    """Every method, none with fields of its own."""
    return {name: {} for name in METHODS}


class Published(BaseModel):
    """A number of the literature: who, on what metric, how much, and where it stands."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str
    metric: str
    value: float
    where: str


class FurtherPretraining(BaseModel):
    """A first stage before the task, the same texts and steps for every method.

    `text` are files of linked texts or a name of `kept.tasks.public_texts`; `n_texts` are drawn.
    Seeds of the task share one first stage a method and kind of knowledge.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    n_texts: PositiveInt
    training: TrainConfig


class Experiment(RunConfig):
    """A task with everything that its runs share.

    `task` are fields of `FinetuneConfig`; its `kg` may also be a name of
    `kept.tasks.public_graphs`. `methods` are the rows, every method where it is not given, with the
    fields that differ; a name of your own with `method` among its fields is a variant of that
    method. `metric` names the score that tables and verdicts read (`accuracy`, `micro`, `macro`,
    `official`), on `asked`. `differs` says in a sentence or two how this is not what the published
    numbers measured.
    """

    name: str
    task: dict[str, Any]
    pretraining: FurtherPretraining | None = None
    methods: dict[str, dict[str, Any]] = Field(default_factory=all_methods)
    metric: str = "accuracy"
    asked: str = "dev"
    published: tuple[Published, ...] = ()
    differs: str = ""
    notes: tuple[str, ...] = ()

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: dict[str, Any]) -> dict[str, Any]:
        for name, own in methods.items():
            method(own.get("method", name))
            if set(own) == {"method"}:
                raise ValueError(f"{name} is {own['method']} itself; say what differs")
        return methods

    def variant_of(self, name: str) -> str:
        """The method that row `name` trains; ConfigError for a name that is none."""
        found: str = self.methods.get(name, {}).get("method", name)
        method(found)
        return found

    def title(self, name: str) -> str:
        """What tables call row `name`: as its paper does, or a variant as the file does."""
        return title(name) if self.variant_of(name) == name else name


@dataclass(frozen=True)
class RunRecord:
    """A finished run, one line of `runs.jsonl`; `run` is the hash of `settings`.

    `scores`: by set, what `kept.tasks.finetuning_scores.scores` gives, with counts. `costs`:
    parameters added and trained, optimiser steps by stage, seconds, milliseconds a sentence, share
    of mentions linked. The folder `run` beside the file holds `predictions.jsonl` (rows of set,
    index, id, group, gold, predicted), and the log and curves of each stage.
    """

    run: str
    experiment: str
    method: str
    knowledge: Knowledge
    seed: int
    scores: dict[str, Any]
    costs: dict[str, Any]
    settings: dict[str, Any]


def run_hash(settings: dict[str, Any]) -> str:
    """Twelve hexadecimal digits of everything that a run's outcome depends on."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} is no setting: give numbers, strings, lists and mappings")
