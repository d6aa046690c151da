"""Further tasks of a fine-tuning run, and which of its options contradict one another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, field_validator

from kept.datasets.formats import FORMATS, TASKS
from kept.finetuning.markers import MARKERS
from kept.heads.model import HEADS, MAIN_LOSS

if TYPE_CHECKING:
    from kept.finetuning.config import FinetuneConfig

NAMES: dict[str, Mapping[str, Any]] = {
    "task": TASKS, "format": FORMATS, "markers": MARKERS, "head": HEADS,
}  # fmt: skip
FILES = ("train", "dev", "test")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class FurtherTask(BaseModel):
    """A task that is learned beside the run's own, by the same encoder under a head of its own.

    `name` is that of its loss and of its scores; the other fields are those of `FinetuneConfig`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    weight: PositiveFloat | None = None
    task: str
    format: str
    train: Path
    dev: Path | None = None
    test: Path | None = None
    dev_share: float = Field(0.1, gt=0, lt=1)
    test_share: float = Field(0.0, ge=0, lt=1)
    max_train: PositiveInt | None = None
    max_asked: PositiveInt | None = None
    markers: str | None = None
    head: str | None = None
    head_options: dict[str, Any] = Field(default_factory=dict)
    threshold: float = 0.0
    no_relation: str | None = None

    @field_validator("name")
    @classmethod
    def _can_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or name == MAIN_LOSS or hasattr(dict, name):
            raise ValueError(f"lower-case letters, digits and _, and none of {MAIN_LOSS}, items, …")
        return name

    @field_validator(*NAMES)
    @classmethod
    def _known(cls, name: str | None, info: Any) -> str | None:
        if name is not None and name not in NAMES[info.field_name]:
            raise ValueError(f"one of {sorted(NAMES[info.field_name])}")
        return name

    def with_absolute_paths(self) -> FurtherTask:
        """The same task from any working directory."""
        paths = {n: path.resolve() for n in FILES if (path := getattr(self, n)) is not None}
        return self.model_copy(update=paths)


def contradictions(config: FinetuneConfig) -> Iterator[str]:
    """Every two options of adaptation that cannot both hold."""
    still = config.strategy == "features" or "encoder" in config.freeze
    inside = [name for name in ("lora", "houlsby") if getattr(config, name) is not None]
    if config.strategy == "features":
        for name in ("freeze", "train_only"):
            if getattr(config, name):
                yield f"strategy features freezes the whole encoder; leave out {name}"
    if still:
        moving = {
            "rate_decay": config.training.rate_decay,
            "host_learning_rate": config.training.host_learning_rate,
            "unfreezing": config.training.unfreezing,
        }
        for name in [*inside, *(f"training.{n}" for n, value in moving.items() if value)]:
            yield f"the encoder is frozen as a whole; leave out {name}"
    elif inside and config.training.host_learning_rate is not None:
        yield f"{inside[0]}: the host stands still; leave out training.host_learning_rate"
    if len(inside) > 1:
        yield "give lora or houlsby, one of them"
    for name in inside if not still else []:
        if {"host", name} & {*config.freeze}:
            yield f"freeze {list(config.freeze)} would keep {name} from learning; leave one out"
        if config.train_only and not {"encoder", "host", name} & {*config.train_only}:
            yield f"train_only {list(config.train_only)} keeps {name} from learning; add {name}"
    yield from _of_further(config)


def _of_further(config: FinetuneConfig) -> Iterator[str]:
    for name, n in Counter(each.name for each in config.also).items():
        if n > 1:
            yield f"also: {n} tasks are named {name!r}; give each its own name"
    for each in config.also:
        if FORMATS[each.format].task != each.task:
            yield f"also {each.name}: format {each.format} holds no {each.task}"
    weights = [config.weight, *(each.weight for each in config.also)]
    given = [weight for weight in weights if weight is not None]
    if not config.also and (given or config.mixing is not None):
        yield "weight and mixing go with further tasks (also)"
    elif given and config.mixing is not None:
        yield "give mixing or the weights of all tasks, one of them"
    elif given and len(given) < len(weights):
        yield "give a weight to every task, the run's own too, or to none"
    if config.also and config.training.objective_weights:
        yield "objective_weights are for losses of one batch; weigh tasks by their weight"
