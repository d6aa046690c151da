"""One cell of the reading controls: an arm on a task under a condition with a seed; its outcome."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import msgspec
from transformers import PreTrainedTokenizerBase

from kept import hosts
from kept.errors import ConfigError
from kept.lab.reading.arms import TARGETS, TASK_NAMES, arm
from kept.lab.reading.conditions import require_condition
from kept.lab.reading.worlds import SIZE, Size
from kept.lab.study.addresses import fingerprint
from kept.suggestions import no_such

VERSION = 1
"""Part of every hash; incremented when a control's outcome would change."""
N_CURVE = 96
"""Test items of a learning curve."""
SOLVED = 0.99


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Steps and rates of training a cell: the same for every arm, but for its own `rates`.

    The rate is constant after `warmup_steps`, so that a longer run begins as a shorter one. A run
    ends early when two evaluations in turn are at `SOLVED` or above. `n_layers`: the host's first
    ones alone (None: all); three are the longest path from a fact to what the head reads, over
    CoLAKE's relation and anchor to a mark. Unless `train_words`, the host's word table is frozen:
    it learns nothing from made-up names, and is half of a step's cost. `measures`: probe, shift,
    gradient norms and answers after edits, too, which cost as much as the training.
    """

    steps: int = 400
    batch_size: int = 16
    learning_rate: float = 3e-4
    warmup_steps: int = 20
    every: int = 20
    host: str = "minilm"
    n_layers: int | None = 3
    train_words: bool = False
    measures: bool = True


BUDGET = Budget()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The settings of one run; cells of one `key` have the same outcome."""

    task: str
    arm: str
    condition: str
    seed: int
    size: Size = SIZE
    budget: Budget = BUDGET

    def __post_init__(self) -> None:
        if self.task not in TASK_NAMES:
            raise no_such("task of the reading controls", self.task, TASK_NAMES)
        require_condition(self.condition)
        if self.task not in arm(self.arm).tasks:
            raise ConfigError(
                f"{self.arm} does not take the task {self.task}; it takes {arm(self.arm).tasks}"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the outcome depends on."""
        fields = {"version": VERSION, **dataclasses.asdict(self), "arm": described(self.arm)}
        settings: dict[str, Any] = json.loads(json.dumps(fields))
        if settings["budget"]["measures"]:
            del settings["budget"]["measures"]  # as before there was a choice
        return settings

    @property
    def key(self) -> str:
        """The first 16 digits of the SHA-256 of `settings`."""
        return fingerprint(self.settings, n_digits=16)


def described(name: str) -> dict[str, Any]:
    """An arm as JSON values, without what does not affect an outcome."""
    values = dataclasses.asdict(arm(name))
    del values["changes"]
    if values["head"] == TARGETS:
        del values["head"]  # as before there was a choice
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cell; accuracies are over `n` test items.

    `curve` holds (step, accuracy on the first `N_CURVE` of them), `losses` (step, loss). `probe`,
    `moved`, `gradients`: untrained and trained, under true facts; None elsewhere and without
    `Budget.measures`, and `moved` where there are no facts to remove. `edited`: after training the
    facts of training heads were changed; the share of answers that follow the new fact, and that
    keep the old one. `stopped_at` is the last step.
    """

    task: str
    arm: str
    condition: str
    seed: int
    accuracy: float
    n: int
    chance: float
    n_classes: int
    curve: list[tuple[int, float]]
    losses: list[tuple[int, float]]
    until_good: int | None
    probe: tuple[float, float] | None
    moved: tuple[float, float] | None
    gradients: tuple[dict[str, float], dict[str, float]] | None
    edited: dict[str, float] | None
    stopped_at: int
    steps: int
    seconds: float
    settings: dict[str, Any]


def open_host(budget: Budget) -> tuple[Any, PreTrainedTokenizerBase]:
    """The budget's host with at most its first `n_layers` layers, and its tokenizer."""
    host = hosts.load_host(budget.host)
    n_layers = min(budget.n_layers or len(hosts.layers(host)), len(hosts.layers(host)))
    host = hosts.first_layers(host, n_layers)
    return host, hosts.load_tokenizer(budget.host)
