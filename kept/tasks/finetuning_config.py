"""Configuration of `kept finetune`: YAML and flags in, one frozen value or every fault out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from kept.graphs.builder import BuilderConfig
from kept.heads.model import HEADS
from kept.methods import method
from kept.tasks.controls import Knowledge
from kept.tasks.finetuning_examples import FORMATS, TASKS
from kept.tasks.finetuning_markers import MARKERS
from kept.training.config import RunConfig, TrainConfig, absolute


class FinetuneConfig(RunConfig):
    """One fine-tuning run: a task's files, a method new or trained, knowledge, how to train.

    Give `model`, the folder of an earlier run, or `method` and `host` for a new encoder. `adapters`
    are folders of adapters, or of runs that trained one each, for a new encoder that has some; they
    are frozen in the task, and must have been trained on `kg`, on none, or `any_graph` be true.
    Without a `dev` file a share of the training file is held out, whole groups (pairs of entities,
    texts) at a time; so is a test set if `test_share` is above 0. Training examples whose text
    stands in dev or test are dropped unless `keep_repeats`. `max_train` and `max_asked` draw so
    many examples of each set. `link` finds entities in texts that have none. `graph` and `view`
    (the view's options) None take what `model` was trained with. `head` None is the task's own;
    `freeze` names parts of the encoder, `train_only` the parts that move beside the head (all, if
    empty). `threshold` is the logit above which a type is predicted. `no_relation` is the class
    that is never counted as a find. `data_seed` draws what is held out and what is left of a set
    that is too large; None takes the training's seed.
    """

    task: str
    format: str
    train: Path
    dev: Path | None = None
    test: Path | None = None
    dev_share: float = Field(0.1, gt=0, lt=1)
    test_share: float = Field(0.0, ge=0, lt=1)
    max_train: PositiveInt | None = None
    max_asked: PositiveInt | None = None
    keep_repeats: bool = False
    kg: Path
    link: bool = False
    knowledge: Knowledge = "true"
    markers: str | None = None
    model: Path | None = None
    method: str | None = None
    host: str = "minilm"
    options: dict[str, Any] = Field(default_factory=dict)
    adapters: tuple[Path, ...] = ()
    any_graph: bool = False
    graph: BuilderConfig | None = None
    view: dict[str, Any] | None = None
    head: str | None = None
    head_options: dict[str, Any] = Field(default_factory=dict)
    freeze: tuple[str, ...] = ()
    train_only: tuple[str, ...] = ()
    threshold: float = 0.0
    no_relation: str | None = None
    control_seed: NonNegativeInt = 0
    data_seed: NonNegativeInt | None = None
    training: TrainConfig = Field(default_factory=dict, validate_default=True)

    @field_validator("task", "format", "markers", "head", "method")
    @classmethod
    def _known(cls, name: str | None, info: Any) -> str | None:
        tables: dict[str, Mapping[str, Any]] = {
            "task": TASKS, "format": FORMATS, "markers": MARKERS, "head": HEADS,
        }  # fmt: skip
        if name is not None and info.field_name == "method":
            method(name)
        elif name is not None and name not in tables[info.field_name]:
            raise ValueError(f"one of {sorted(tables[info.field_name])}")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if FORMATS[self.format].task != self.task:
            wanted = sorted(name for name, line in FORMATS.items() if line.task == self.task)
            raise ValueError(f"format {self.format} holds no {self.task}; give one of {wanted}")
        faults = []
        if (self.model is None) == (self.method is None):
            faults.append("give model or method, exactly one")
        if self.model is not None and self.options:
            faults.append("options belong to a new encoder; model brings its own")
        if self.model is not None and self.adapters:
            faults.append("adapters belong to a new encoder; model brings its own")
        elif self.adapters and "adapters" not in method(self.method or "kadapter").encoder.parts:
            faults.append(f"{self.method} has no adapters; leave them out, or give another method")
        if self.adapters and self.knowledge != "true":
            faults.append(
                f"adapters know what they were trained on, whatever knowledge={self.knowledge!r} "
                "takes away; give adapters trained on such a graph as kg"
            )
        if self.any_graph and not self.adapters:
            faults.append("any_graph goes with adapters")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def with_absolute_paths(self) -> Self:
        """The same run from any working directory."""
        names = ("train", "dev", "test", "kg", "model")
        paths = {n: path.resolve() for n in names if (path := getattr(self, n)) is not None}
        update: dict[str, Any] = {
            **paths,
            "adapters": tuple(map(Path.resolve, self.adapters)),
            "options": absolute(self.options),
            "view": absolute(self.view),
        }
        if Path(self.host).is_dir():
            update["host"] = str(Path(self.host).resolve())
        return self.model_copy(update=update)
