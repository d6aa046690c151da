"""The settings of the study: its sizes, stages and arms."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from kept.graphs.builder import BuilderConfig
from kept.lab.study.origins import fingerprint_of
from kept.methods import Method, method
from kept.training.config import RunConfig, TrainConfig

HEAD = "head"


class Arm(BaseModel):
    """A method with the options of its encoder and view.

    `start` names an earlier arm, whose trained model it begins with, host and head over words;
    without it the head alone is trained before. `steps` are its own number of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    options: dict[str, Any] = {}
    view: dict[str, Any] = {}
    start: str | None = None
    steps: PositiveInt | None = None

    @property
    def line(self) -> Method:
        return method(self.method)


class ShownFactsStudy(RunConfig):
    """The settings; `head` trains the host's head over words on text, once for all arms.

    `words` are options of `mlm`, which trains the head, `stated` those of `stated_words`; `freeze`
    the encoder's parts that stay in both stages.
    """

    host: str = "minilm"
    seed: NonNegativeInt = 0
    folds: PositiveInt
    facts_per_relation: PositiveInt
    stated_per_relation: PositiveInt
    n_texts: PositiveInt
    builder: BuilderConfig
    head: TrainConfig
    reading: TrainConfig
    words: dict[str, Any] = Field(default_factory=dict)
    stated: dict[str, Any] = Field(default_factory=dict)
    freeze: tuple[str, ...] = ()
    arms: dict[str, Arm]

    @model_validator(mode="after")
    def _starts_are_arms(self) -> Self:
        names = list(self.arms)
        for i, (name, arm) in enumerate(self.arms.items()):
            if arm.start is not None and arm.start not in names[:i]:
                raise ValueError(f"arm {name} starts from {arm.start!r}: name an arm before it")
        return self

    def settings_of(self, name: str) -> str:
        """Fingerprint of what a trained model depends on; `HEAD` is the host with its head."""
        shared = {
            "host", "seed", "facts_per_relation", "n_texts", "builder", "head", "words", "freeze",
        }  # fmt: skip
        first = self.model_dump(mode="json", include=shared)
        if name == HEAD:
            return fingerprint_of(first)
        fields = self.model_dump(
            mode="json", include={"folds", "stated_per_relation", "reading", "stated"}
        )
        arm = self.arms[name]
        before = [] if arm.start is None else [self.settings_of(arm.start)]
        return fingerprint_of(
            first, fields, arm.model_dump(mode="json", exclude_none=True), *before
        )
