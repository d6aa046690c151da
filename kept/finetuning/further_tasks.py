"""Further tasks of a fine-tuning run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, field_validator

from kept.datasets.formats import FORMATS, TASKS
from kept.finetuning.markers import MARKERS
from kept.heads.model import HEADS, MAIN_LOSS
from kept.suggestions import no_such

NAMES: dict[str, Mapping[str, Any]] = {
    "task": TASKS, "format": FORMATS, "markers": MARKERS, "head": HEADS,
}  # fmt: skip
FILES = ("train", "dev", "test")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class FurtherTask(BaseModel):
    """A task that is learned beside the run's own, by the same encoder under a head of its own.

    `name` is that of its loss and of its scores; the other fields are those of `FinetuneConfig`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
            raise no_such(info.field_name, name, sorted(NAMES[info.field_name]))
        return name

    def with_absolute_paths(self) -> FurtherTask:
        """The same task from any working directory."""
        paths = {n: path.resolve() for n in FILES if (path := getattr(self, n)) is not None}
        return self.model_copy(update=paths)
