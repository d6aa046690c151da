"""Configuration of `kept pretrain` from YAML and flags, frozen; all faults are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from kept.bounds import MAX_COUNT, MAX_RATE, MAX_SEED, MAX_THREADS
from kept.errors import ConfigError
from kept.options import merged
from kept.values import shown_value
from kg_loaders.counting import counted
from kg_loaders.disk.kinds import require_file_or_folder

Rate = Annotated[PositiveFloat, Field(le=MAX_RATE)]
OPERATIONAL = frozenset(
    {
        "workers", "prefetch", "checkpoint_steps", "checkpoint_seconds", "keep", "log_every",
        "evaluate_every", "budget_minutes", "budget_cpu_minutes", "gradient_norms_every",
    }
)  # fmt: skip
"""Fields of `TrainConfig` that do not affect the weights: a resumed run may change them."""

Shard = Literal["tables", "layers"]
"""What several processes may share out: rows of tables of entities, weights of layers."""

SINCE_0_2 = {"row_optimiser": "adam", "averaging": None, "last_share": 0.0, "order": "shuffled"}
"""Fields that checkpoints of older runs do not name, each with what these runs did."""


class Unfreezing(BaseModel):
    """Which groups of layers (`KnowledgeEncoder.group_of`) are trained when; a stage is `every`
    steps.

    "gradual": the head, then one more group per stage, from the last layer down (Howard and Ruder
    2018, section 3.3). "chain": chain-thaw, the head, then each group alone from the embeddings up,
    then all (Felbo et al. 2017, section 3.3). "sequential": the head, then the hidden layers too,
    then the embeddings too (Chronopoulou et al. 2019, section 3). "two-stage": the head, then all
    (KT-NET, Yang et al. 2019). Without `every` a stage is an epoch. Groups in which nothing is
    trained have no stage. Felbo et al. go on when a stage has converged on held-out data,
    Chronopoulou et al. choose the length of each by hand; here stages are of equal length, so that
    a resumed run is the same.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    order: Literal["gradual", "chain", "sequential", "two-stage"]
    every: PositiveInt | None = None


class Averaging(BaseModel):
    """What becomes of the mean of the parameters over the last `steps` steps, or over "all".

    `distil`: a loss `teacher` on the logits that the mean has (self-distillation), weighed by
    `objective_weights`; it costs a second forward pass, and a task must have one answer a text.
    `publish`: the run's model is the mean at its last step (self-ensemble); what is evaluated while
    training is the model itself. Xu et al. 2020; see `kept.training.averaging`. Tables with sparse
    gradients are read, and published, as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: PositiveInt | Literal["all"]
    distil: bool = False
    publish: bool = Field(default=False, validate_default=True)

    @field_validator("publish")
    @classmethod
    def _for_something(cls, publish: bool, info: ValidationInfo) -> bool:
        if not publish and not info.data.get("distil"):
            raise ValueError("give distil: true, publish: true or both: the mean is for nothing")
        return publish


class TrainConfig(BaseModel):
    """How to train, whatever the model and the data.

    `steps` counts optimiser steps, each of `accumulate` batches. `epochs` is rounded up to whole
    steps. `schedule` "linear" falls to zero at the last step, after `warmup_steps`; "cosine" falls
    along half a wave to `last_share` of the rate.
    `objective_weights` are by name of loss, 1 where absent. `gradient_norms_every`: at the first
    step and at every so many, the gradient norm of each loss is measured by itself (`loss_norms`),
    at one backward pass per loss: with 100, a few per cent. Both budgets end a run with a
    checkpoint; that of minutes counts from the start of the command, so that reading and graph
    vectors are part of it; `budget_cpu_minutes` is processor time of the training process and its
    threads. `rate_decay`: a group of layers (`KnowledgeEncoder.group_of`) has a rate so many times
    lower than the one above it, the head at `learning_rate` (Howard and Ruder 2018, section 3.1,
    with 2.6); tables with sparse gradients keep `entity_learning_rate`. `row_optimiser` is theirs:
    "adam" keeps two moments for each number of a row, "adagrad" one number a row, and wants a rate
    of about 0.05. `host_learning_rate` is that of the host's own, pre-trained parameters, where
    `learning_rate` suits the new ones. `averaging`: the mean of the parameters over steps, and what
    it is for. `shard` names what several processes share out instead of holding it whole; it
    belongs to the start of a command, as the number of processes does, not to the run, and is not
    written. `precision`: products in float32, in bfloat16 by autocast (weights and the optimiser's
    numbers stay in float32), or "auto", whichever a short measured step is faster in
    (`kept.training.precision`); a resumed run goes on in the one that it began with. `order`:
    samples of a batch in any order ("shuffled"), or of about the same length ("by_length"), which
    leaves little padding (`kept.training.stream.BatchStream`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: NonNegativeInt = Field(default=0, le=MAX_SEED)
    steps: PositiveInt | None = Field(default=None, le=MAX_COUNT)
    epochs: PositiveInt | None = Field(default=None, le=MAX_COUNT, validate_default=True)
    batch_size: PositiveInt | None = Field(default=None, le=MAX_COUNT)
    node_budget: PositiveInt | None = Field(default=None, le=MAX_COUNT, validate_default=True)
    order: Literal["shuffled", "by_length"] = "shuffled"
    accumulate: PositiveInt = Field(default=1, le=MAX_COUNT)
    learning_rate: Rate = 1e-4
    entity_learning_rate: Rate = 1e-3
    row_optimiser: Literal["adam", "adagrad"] = "adam"
    host_learning_rate: Rate | None = None
    weight_decay: NonNegativeFloat = 0.01
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    last_share: float = Field(default=0.0, ge=0, le=1)
    warmup_steps: NonNegativeInt = Field(default=0, le=MAX_COUNT)
    clip_norm: PositiveFloat | None = 1.0
    rate_decay: float | None = Field(default=None, ge=1)
    unfreezing: Unfreezing | None = None
    averaging: Averaging | None = None
    shard: tuple[Shard, ...] = Field(default=(), exclude=True)
    objective_weights: dict[str, NonNegativeFloat] = {}
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    threads: PositiveInt | None = Field(default=None, le=MAX_THREADS)
    workers: NonNegativeInt = Field(default=0, le=MAX_THREADS)
    prefetch: PositiveInt = 2
    checkpoint_steps: PositiveInt | None = None
    checkpoint_seconds: PositiveFloat | None = 600.0
    keep: PositiveInt = 2
    log_every: PositiveInt = 10
    gradient_norms_every: PositiveInt | None = 100
    evaluate_every: PositiveInt | None = None
    budget_minutes: PositiveFloat | None = None
    budget_cpu_minutes: PositiveFloat | None = None

    def weight_of(self, loss: str) -> float:
        """That of a loss by its name."""
        return self.objective_weights.get(loss, 1.0)

    @field_validator("epochs")
    @classmethod
    def _one_length(cls, epochs: int | None, info: ValidationInfo) -> int | None:
        return _exactly_one(epochs, info, "steps")

    @field_validator("shard")
    @classmethod
    def _one_set_of_weights(
        cls, shard: tuple[Shard, ...], info: ValidationInfo
    ) -> tuple[Shard, ...]:
        averaging = info.data.get("averaging")
        if "layers" in shard and averaging is not None and averaging.distil:
            raise ValueError(
                "the teacher of averaging.distil computes with other weights than the layers', "
                "which are shared out; give tables alone, or leave one out"
            )
        return shard

    @field_validator("warmup_steps")
    @classmethod
    def _within_the_run(cls, warmup_steps: int, info: ValidationInfo) -> int:
        steps = info.data.get("steps")
        if steps is not None and warmup_steps > steps:
            raise ValueError(f"a warm-up is at most as long as the run, which has {steps} steps")
        return warmup_steps

    @field_validator("node_budget")
    @classmethod
    def _one_size(cls, node_budget: int | None, info: ValidationInfo) -> int | None:
        return _exactly_one(node_budget, info, "batch_size")


class RunConfig(BaseModel):
    """Abstract: one run, read from YAML and flags."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def read(
        cls,
        path: Path | None,
        overrides: Mapping[str, Any] | None = None,
        *,
        complete: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
    ) -> Self:
        """From a YAML file, `overrides` on top (dotted names: `training.steps`).

        `complete` returns the fields with those that neither gives. Raises `ConfigError` that lists
        every fault with its field.
        """
        values = {} if path is None else cls.fields_of(path)
        for name, value in (overrides or {}).items():
            _put(values, name.split("."), value)
        try:
            return cls.model_validate(complete(values))
        except ValidationError as error:
            source = "the command line" if path is None else str(path)
            raise ConfigError(_all_faults(error, source)) from None

    @classmethod
    def fields_of(cls, path: Path) -> dict[str, Any]:
        """What a YAML file says, unchecked; ConfigError for one that holds no mapping."""
        return _read_yaml(path)


def with_auto_precision(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a run with `training.precision: auto` where they name none.

    Those that say `as_published` compute in float32, as the library does by default.

    >>> with_auto_precision({"training": {"steps": 2}})["training"]
    {'precision': 'auto', 'steps': 2}
    """
    training = fields.get("training") or {}
    if fields.get("as_published") or not isinstance(training, Mapping):
        return dict(fields)
    return merged({"training": {"precision": "auto"}}, {**fields, "training": dict(training)})


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Every field that differs, with both values: `seed: 1, now 2`."""
    return [
        f"{name}: {old.get(name)!r}, now {new.get(name)!r}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def binding(config: TrainConfig) -> dict[str, Any]:
    """The fields that a resumed run must share, as JSON values.

    Under a constant schedule the length is free: a run may be prolonged.
    """
    free = OPERATIONAL | ({"steps", "epochs"} if config.schedule == "constant" else frozenset())
    free |= {name for name, value in SINCE_0_2.items() if getattr(config, name) == value}
    return config.model_dump(mode="json", exclude=set(free))


def _exactly_one(value: int | None, info: ValidationInfo, other: str) -> int | None:
    if other in info.data and (value is None) == (info.data[other] is None):
        raise ValueError(f"give {other} or {info.field_name}, exactly one")
    return value


def _read_yaml(path: Path) -> dict[str, Any]:
    require_file_or_folder(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read as YAML: {reason}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, not a mapping of fields")
    return values


def _put(values: dict[str, Any], names: list[str], value: Any) -> None:
    for name in names[:-1]:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # the section itself is faulty; validation names it
        values = inner
    values[names[-1]] = value


def _all_faults(error: ValidationError, source: str) -> str:
    faults = list(_faults(error))
    listed = "".join(f"\n  {fault}" for fault in faults)
    return f"{counted(len(faults), 'faults')} in {source}:{listed}"


def _faults(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False):
        name = ".".join(str(part) for part in fault["loc"])
        if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            yield f"{name}: unknown field"
        elif fault["type"] == "missing":
            yield f"{name}: required"
        else:
            message = fault["msg"].removeprefix("Value error, ")
            of_field = f"{name}: {message}, not {shown_value(fault['input'])}"
            yield of_field if name else message
