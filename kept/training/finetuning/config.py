"""Configuration of `kept finetune`: YAML and flags to one frozen value, or all faults at once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    field_validator,
    model_validator,
)

from entity_linking.names.rules.case import Case
from kept.adapters.bottleneck import HoulsbyOptions
from kept.adapters.inside import PLACES
from kept.adapters.lora import LoraOptions
from kept.adapters.pals import PALOptions
from kept.graphs.builder import BuilderConfig
from kept.graphs.windows import Long
from kept.heads.layer_mix import LayerMixOptions
from kept.heads.model import head_kind
from kept.heads.span import SpanOptions
from kept.inputs.controls.conditions import Knowledge
from kept.inputs.controls.link_errors import LinkErrors
from kept.methods import method, method_key
from kept.tasks.datasets.formats import TASKS
from kept.training.config import RunConfig, TrainConfig
from kept.training.finetuning.task_files import FurtherTask, TaskFiles
from kept.training.pretraining.assembly import precomputed_options
from kept.training.pretraining.config import absolute, own_vectors


class FinetuneConfig(TaskFiles, RunConfig):
    """One fine-tuning run: a task's files, a method new or trained, knowledge, how to train.

    Give `model`, the folder of an earlier run, or `method` and `host` for a new encoder. `adapters`
    are folders of adapters, or of runs that trained one each, for a new encoder that has some; they
    are frozen in the task, and must have been trained on `kg`, on none, or `any_graph` be true.
    Files: see `TaskFiles`. Training examples whose text stands in dev or test are dropped unless
    `keep_repeats`, and all examples with a label of `leave_out`. `link` finds entities
    in texts that have none, by the policy `case`. `graph` and `view` (the view's options) None take
    what `model` was trained with. `long` says what becomes of texts that are too long (`TaskData`).
    `freeze` names parts of the encoder, `train_only` the parts that move beside the head (all, if
    empty). `data_seed` draws the held-out examples and the samples of splits that are too large;
    None takes the training's seed. `link_errors` corrupts links, before
    anything else is done to the texts; which ones depends on `control_seed`, as all that a
    control draws. `as_published`: a new encoder has its paper's settings where none are given, not
    those of `Method.recipe`, which `kept.training.finetuning.recipes` fills in.

    How the encoder is adapted (docs/how-to/adaptation.md): `strategy` "features" is
    `freeze: [encoder]`.
    `layer_mix`: the head reads a learned mixture of all layers. `lora`, `houlsby`, `pals`: what is
    put inside the host, whose own weights are then frozen. `teacher`, the folder of a run of this
    task that has ended, gives its logits on the training examples, read with its own method and
    `kg`: a second loss, `teacher` (`training.objective_weights` weigh it). `also` are tasks learned
    beside this one; a task's batches come by size to the power `mixing` (None: 1), or by the
    `weight` of each. A `model` that was pre-trained or fine-tuned brings its encoder; the heads on
    it are dropped, so that `kept pretrain` is continued pre-training for a task.
    """

    keep_repeats: bool = False
    leave_out: tuple[str, ...] = ()
    kg: Path
    link: bool = False
    case: Case = "smart"
    knowledge: Knowledge = "true"
    link_errors: LinkErrors = LinkErrors()
    model: Path | None = None
    method: str | None = None
    host: str = "minilm"
    as_published: bool = False
    options: dict[str, Any] = Field(default_factory=dict)
    adapters: tuple[Path, ...] = ()
    any_graph: bool = False
    graph: BuilderConfig | None = None
    view: dict[str, Any] | None = None
    long: Long = "cut"
    freeze: tuple[str, ...] = ()
    train_only: tuple[str, ...] = ()
    strategy: Literal["fine-tuning", "features"] = "fine-tuning"
    layer_mix: LayerMixOptions | None = None
    lora: LoraOptions | None = None
    houlsby: HoulsbyOptions | None = None
    pals: PALOptions | None = None
    teacher: Path | None = None
    also: tuple[FurtherTask, ...] = ()
    weight: PositiveFloat | None = None
    mixing: NonNegativeFloat | None = None
    control_seed: NonNegativeInt = 0
    data_seed: NonNegativeInt | None = None
    training: TrainConfig = Field(default_factory=dict, validate_default=True)

    @field_validator("method")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        return None if name is None else method_key(name)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
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
                f"adapters keep what they were trained on, whatever knowledge={self.knowledge!r} "
                "takes away; give adapters trained on such a graph as kg"
            )
        method_spec = None if self.method is None else method(self.method)
        if self.knowledge != "true" and (names := precomputed_options(self.options, method_spec)):
            faults.append(
                f"options {names} bring what was made beforehand, whatever "
                f"knowledge={self.knowledge!r} takes away; leave them out"
            )
        if self.knowledge == "off" and self.link_errors.share:
            faults.append("link_errors: with knowledge off there is no link to corrupt")
        if self.any_graph and not self.adapters:
            faults.append("any_graph goes with adapters")
        if TASKS[self.task].kind.rows != "one" and self.markers_name != "none":
            faults.append(f"markers {self.markers_name} would show where the answers are; use none")
        faults += contradictions(self)
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def markers_name(self) -> str:
        """`markers`, or the task's own."""
        return self.markers or TASKS[self.task].markers

    @property
    def frozen(self) -> tuple[str, ...]:
        """Parts of the encoder that are never trained here."""
        return ("encoder",) if self.strategy == "features" else self.freeze

    def all_head_options(self) -> dict[str, Any]:
        """The task's own options where they fit the head, under those that were given."""
        task = TASKS[self.task]
        known_names = {
            f.name for f in dataclasses.fields(head_kind(self.head or task.head).options)
        }
        options = {name: value for name, value in task.head_options.items() if name in known_names}
        return {**options, **self.head_options}

    @property
    def span_options(self) -> SpanOptions | None:
        """How a question is shown, where the head is one for spans."""
        if (self.head or TASKS[self.task].head) != "span":
            return None
        return SpanOptions(**self.all_head_options())

    def of_further(self, task: FurtherTask) -> Self:
        """This configuration with what differs for a further task."""
        fields = {name: getattr(task, name) for name in TaskFiles.model_fields}
        return self.model_copy(update={**fields, "also": ()})

    def started_from(self, model: Path) -> Self:
        """The task on a model that was trained before; ConfigError for what goes with none."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).read(None, values | {"model": model, "method": None, "options": {}})

    def with_absolute_paths(self) -> Self:
        """The same run from any working directory."""
        named_paths = self.files | {"kg": self.kg} | ({"model": self.model} if self.model else {})
        paths = {name: path.resolve() for name, path in named_paths.items()}
        update: dict[str, Any] = {
            **paths,
            "adapters": tuple(map(Path.resolve, self.adapters)),
            "teacher": self.teacher and self.teacher.resolve(),
            "options": absolute(self.options, words=own_vectors(self.method)),
            "view": absolute(self.view),
            "also": tuple(map(FurtherTask.with_absolute_paths, self.also)),
        }
        if Path(self.host).is_dir():
            update["host"] = str(Path(self.host).resolve())
        return self.model_copy(update=update)


def contradictions(config: FinetuneConfig) -> Iterator[str]:
    """Every two options of adaptation that cannot both hold."""
    still = config.strategy == "features" or "encoder" in config.freeze
    inside = [name for name in PLACES if getattr(config, name) is not None]
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
        yield f"{inside[0]}: the host is frozen; leave out training.host_learning_rate"
    if len(inside) > 1:
        yield f"give one of {', '.join(inside)}"
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
    weights = [config.weight, *(each.weight for each in config.also)]
    set_weights = [weight for weight in weights if weight is not None]
    if not config.also and (set_weights or config.mixing is not None):
        yield "weight and mixing go with further tasks (also)"
    elif set_weights and config.mixing is not None:
        yield "give mixing or the weights of all tasks, one of them"
    elif set_weights and len(set_weights) < len(weights):
        yield "give a weight to every task, the run's own too, or to none"
    averaging = config.training.averaging
    distils = averaging is not None and averaging.distil
    if distils and config.teacher is not None:
        yield "give teacher or training.averaging.distil, one of them: a batch has one teacher"
    for name, is_given in (("teacher", config.teacher), ("training.averaging.distil", distils)):
        if is_given and not TASKS[config.task].kind.has_one_answer:
            yield f"{name}: {config.task} has no one answer a text, whose logits it could give"
        if is_given and config.also:
            yield f"{name} goes with one task; leave out also"
    if config.also and config.training.objective_weights:
        yield "objective_weights are for losses of one batch; weigh tasks by their weight"
