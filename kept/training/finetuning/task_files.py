"""The files of a task and how its examples are read: a run's own and further tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from kept.heads.model import HEADS, MAIN_LOSS
from kept.suggestions import no_such
from kept.tasks.datasets.formats import FORMATS, TASKS
from kept.training.finetuning.markers import MARKERS

NAMES: dict[str, Mapping[str, Any]] = {
    "task": TASKS, "format": FORMATS, "markers": MARKERS, "head": HEADS,
}  # fmt: skip
SETS = ("train", "dev", "test")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class TaskFiles(BaseModel):
    """A task's files by set, what is drawn of them, and the head that answers.

    Without a `dev` file a share of the training file is held out, whole groups (pairs of entities,
    texts) at a time; so is a test set if `test_share` is above 0. `max_train` and `max_asked` are
    the most examples drawn of each split. `head` None is the task's own. `threshold` is the logit
    above which a type is predicted, or by how much a span must be better than no answer;
    `no_relation` the class that is never counted as a find.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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

    @field_validator(*NAMES)
    @classmethod
    def _is_there(cls, name: str | None, info: Any) -> str | None:
        if info.field_name == "task" and name is not None:
            name = name.replace("-", "_")
        if name is not None and name not in NAMES[info.field_name]:
            raise no_such(info.field_name, name, sorted(NAMES[info.field_name]))
        return name

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.task not in FORMATS[self.format].tasks:
            fitting = sorted(name for name, line in FORMATS.items() if self.task in line.tasks)
            raise ValueError(f"format {self.format} holds no {self.task}; give one of {fitting}")
        return self

    @property
    def files(self) -> dict[str, Path]:
        """Its files by set."""
        return {name: path for name in SETS if (path := getattr(self, name)) is not None}


class FurtherTask(TaskFiles):
    """A task that is learned beside the run's own, by the same encoder under a head of its own.

    `name` is that of its loss and of its scores.
    """

    name: str
    weight: PositiveFloat | None = None

    @field_validator("name")
    @classmethod
    def _can_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or name == MAIN_LOSS or hasattr(dict, name):
            raise ValueError(f"lower-case letters, digits and _, and none of {MAIN_LOSS}, items, …")
        return name

    def with_absolute_paths(self) -> FurtherTask:
        """The same task from any working directory."""
        return self.model_copy(update={n: path.resolve() for n, path in self.files.items()})
