"""`Experiment`: a task as one YAML file, and `RunRecord`: what a finished run leaves.

An experiment names data, knowledge, training, and the published numbers; a run of it is one method
with one kind of knowledge and one seed. Paths in the file are relative to the folder that the
variable KEPT_DATA names, unless absolute.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from kept.errors import ConfigError
from kept.evaluation.published import Published
from kept.inputs.controls.conditions import Knowledge
from kept.methods import METHODS, method, method_key, title
from kept.suggestions import no_such
from kept.tasks.scores.official_scores import OFFICIAL
from kept.training.config import RunConfig, TrainConfig, merged, with_auto_precision
from kept.training.finetuning.recipes import with_recipe

DEFAULT_SEEDS = 10
"""With three, few differences of a published size are seen (`benchmarks/models/intervals.md`)."""
RUN_FIELDS = {
    "knowledge": "kinds beside the true one are chosen by --controls",
    "training.seed": "their number is given by --seeds",
}
"""Fields of `FinetuneConfig` that are set for every run, and by what."""
SHARED_FIELDS = (
    "task", "format", "kg", "train", "dev", "test", "dev_share", "test_share", "data_seed",
    "max_asked", "leave_out", "no_relation",
)  # fmt: skip
"""Fields of `FinetuneConfig` that decide what is evaluated and counted: the same for all rows."""
SHIPPED = Path(__file__).with_name("tasks")
BASE = "extends"


def all_methods() -> dict[str, dict[str, Any]]:
    """Every method, none with fields of its own."""
    return {name: {} for name in METHODS}


class FurtherPretraining(BaseModel):
    """Continued pre-training before the task, the same texts and steps for every method.

    `text` are files of linked texts or a name of `kept.tasks.datasets.public_graphs`; `n_texts` are
    drawn. Seeds of the task share one such training per method and kind of knowledge.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    text: str
    n_texts: PositiveInt
    training: TrainConfig


class Tuning(BaseModel):
    """Which learning rates each row chooses among, on a share of the training set alone.

    A trial is a rate of the head and what is new beside one of the host (None: the same). All rows
    have the same trials, at `share` of the budget first; the better half goes on to the next of
    `budgets`. A row takes the rate that is best on the mean of *all* its kinds of knowledge, so
    that nothing favours the true one; `none` is trained as often, with further seeds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    learning_rates: tuple[PositiveFloat, ...] = Field(min_length=1)
    host_learning_rates: tuple[PositiveFloat | None, ...] = Field((None,), min_length=1)
    budgets: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.25, 0.5, 1.0)
    share: float = Field(0.2, gt=0, lt=1)
    seed: NonNegativeInt = 0

    @property
    def trials(self) -> list[dict[str, float]]:
        """Fields of `training`, one mapping per trial."""
        rates = product(self.learning_rates, self.host_learning_rates)
        return [
            {"learning_rate": rate} | ({} if host is None else {"host_learning_rate": host})
            for rate, host in rates
        ]


class PrimaryContrast(BaseModel):
    """The one question that an experiment is made to answer, named before it is run.

    The gain of true knowledge over `against` (a control, or `none`) on the samples with a fact,
    minus that on the samples without one. `margin`: below it a difference is called none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    against: Knowledge | Literal["none"] = "shuffled"
    margin: PositiveFloat | None = None

    @field_validator("against")
    @classmethod
    def _other(cls, against: str) -> str:
        if against == "true":
            raise ValueError("the contrast is of true knowledge with a control; name the control")
        return against


class Plan(Protocol):
    """What is compared: what tables and verdicts read of an experiment, whoever runs it.

    `metric` names the score on the evaluation split `asked`; `title` is what tables call a row.
    """

    @property
    def name(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def asked(self) -> str: ...
    @property
    def primary(self) -> PrimaryContrast | None: ...
    @property
    def pretraining(self) -> FurtherPretraining | None: ...
    @property
    def published(self) -> tuple[Published, ...]: ...
    @property
    def differs(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def title(self, name: str) -> str: ...
    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class Experiment(RunConfig):
    """A task with everything that its runs share.

    `task` are fields of `FinetuneConfig`; its `kg` may also be a name of
    `kept.tasks.datasets.public_graphs`. `methods` are the rows, every method where it is not
    given, with the fields that differ; a name of your own with `method` among its fields is a
    variant of that
    method. No row has splits, kinds of knowledge or seeds of its own. `metric` names the score that
    tables and verdicts read (`accuracy`, `micro`, or `official` where the format has one; of a
    regression `pearson` or `spearman`), on the evaluation split `asked`: dev, or test where the
    task has `test` or `test_share`. `seeds` are run where a command does not say how many;
    `primary` names the contrast that is to decide, and every run records what it was when the run
    was made. `redrawn`: what each seed draws anew beside the task's weights and order: continued
    pre-training ("first stage"), and what controls shuffle (all seeds share those of seed 0 where
    it is not named). `as_published`: rows have their papers' settings where the file gives none, as
    all committed studies do; without it those of `Method.recipe`. `tuning`: see `Tuning`. `differs`
    says in a sentence or two how this is not what the published numbers measured; `notes` are shown
    as they are.

    A file that says `extends: NAME` gives only what differs from the experiment of that name that
    ships with kept; its `methods`, if given, are all its rows. Its name is that of the file.
    """

    name: str
    task: dict[str, Any]
    pretraining: FurtherPretraining | None = None
    methods: dict[str, dict[str, Any]] = Field(default_factory=all_methods)
    metric: Literal["accuracy", "micro", "official", "pearson", "spearman"] = "accuracy"
    asked: Literal["dev", "test"] = "dev"
    seeds: PositiveInt = DEFAULT_SEEDS
    primary: PrimaryContrast | None = None
    redrawn: tuple[Literal["first stage", "controls"], ...] = ()
    as_published: bool = False
    tuning: Tuning | None = None
    published: tuple[Published, ...] = ()
    differs: str = ""
    notes: tuple[str, ...] = ()

    @field_validator("task")
    @classmethod
    def _shared(cls, task: dict[str, Any]) -> dict[str, Any]:
        overwritten = RUN_FIELDS | {"method": "give the rows under methods"}
        if faults := [f"{name}: {why}" for name, why in overwritten.items() if _has(task, name)]:
            raise ValueError(f"{'; '.join(faults)}; leave them out: every run sets them")
        return task

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: dict[str, Any]) -> dict[str, Any]:
        faults = []
        for name, fields in methods.items():
            method(fields.get("method", name))
            if set(fields) == {"method"}:
                faults.append(f"{name} is {fields['method']} itself; say what differs")
            faults += [
                f"{name}.{key}: {why}" for key, why in RUN_FIELDS.items() if _has(fields, key)
            ]
            same = [f"{name}.{key}" for key in SHARED_FIELDS if _has(fields, key)]
            faults += [f"{key}: the same for all rows; give it under task" for key in same]
        if faults:
            raise ValueError("; ".join(faults))
        return methods

    @field_validator("metric")
    @classmethod
    def _scored(cls, metric: str, info: ValidationInfo) -> str:
        kind = info.data.get("task", {}).get("format")
        if metric == "official" and kind is not None and kind not in OFFICIAL:
            raise ValueError(f"format {kind} has no official score; {sorted(OFFICIAL)} have one")
        is_regression = info.data.get("task", {}).get("task") == "regression"
        if is_regression != (metric in ("pearson", "spearman")):
            raise ValueError("a regression is read by pearson or spearman, other tasks by others")
        return metric

    @field_validator("asked")
    @classmethod
    def _there(cls, split: str, info: ValidationInfo) -> str:
        task = info.data.get("task")
        if (
            split == "test"
            and task is not None
            and not (_has(task, "test") or task.get("test_share"))
        ):
            raise ValueError("the task has no test set; give task.test or task.test_share, or dev")
        return split

    @classmethod
    def fields_of(cls, path: Path) -> dict[str, Any]:
        """What a file says, over the shipped experiment that it extends."""
        given_fields = super().fields_of(path)
        if BASE not in given_fields:
            return given_fields
        name, shipped = given_fields.pop(BASE), shipped_experiments()
        if name not in shipped:
            raise ConfigError(f"{path}: {no_such('shipped experiment', str(name), shipped)}")
        fields = merged(super().fields_of(shipped[name]), {"name": path.stem} | given_fields)
        return fields | {part: given_fields[part] for part in ("methods",) if part in given_fields}

    def limited(self, n: int) -> Self:
        """A small copy: at most `n` examples of each set and pre-training texts, no warm-up.

        Its name says so; its runs have addresses of their own.
        """
        task = _limited(self.task, n)
        if further := task.get("also"):
            task["also"] = [_limited(each, n) for each in further]
        stage = self.pretraining
        if stage is not None:
            training = stage.training.model_copy(update={"warmup_steps": 0})
            update = {"n_texts": min(n, stage.n_texts), "training": training}
            stage = stage.model_copy(update=update)
        update = {"name": f"{self.name}-limit-{n}", "task": task, "pretraining": stage}
        rows = {name: _limited(row, n, row) for name, row in self.methods.items()}
        return self.model_copy(update=update | {"methods": rows})

    def row(self, name: str) -> dict[str, Any]:
        """Fields of `FinetuneConfig` of row `name`: the task's with its own over them, and below
        both the recipe of its method and the faster precision, unless it is `as_published`."""
        fields = merged(self.task, self.methods.get(name, {}))
        if self.as_published:
            return fields
        return with_auto_precision(with_recipe({**fields, "method": self.variant_of(name)}))

    def variant_of(self, name: str) -> str:
        """The method that row `name` trains; ConfigError for a name that is none."""
        return method_key(self.methods.get(name, {}).get("method", name))

    def title(self, name: str) -> str:
        """What tables call row `name`: as its paper does, or a variant as the file does."""
        return title(name) if self.variant_of(name) == name else name


@dataclass(frozen=True)
class RunRecord:
    """A finished run, one line of `runs.jsonl`; `run` is the hash of `settings`.

    `scores`: by set, what `kept.tasks.scores.scores.scores` gives, with counts. `costs`:
    parameters added and trained, optimiser steps, continued pre-training and its texts,
    seconds, milliseconds a sentence, mentions linked. The folder `run` beside the file holds
    `predictions.jsonl` (see `kept.training.finetuning.answers`), and the log and curves of each
    stage. `primary`: the contrast that the experiment named when the run was made.
    """

    run: str
    experiment: str
    method: str
    knowledge: Knowledge
    seed: int
    scores: dict[str, Any]
    costs: dict[str, Any]
    settings: dict[str, Any]
    primary: dict[str, Any] | None = None


def shipped_experiments() -> dict[str, Path]:
    """The files of the experiments that come with kept, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def _limited(
    fields: Mapping[str, Any], n: int, names: Collection[str] = ("max_train", "max_asked")
) -> dict[str, Any]:
    capped = {name: min(n, fields.get(name) or n) for name in ("max_train", "max_asked")}
    limited = {**fields, **{name: most for name, most in capped.items() if name in names}}
    if "training" in fields:
        limited["training"] = {**fields["training"], "warmup_steps": 0}
    return limited


def _has(fields: Mapping[str, Any], name: str) -> bool:
    """Whether a field is given, by its dotted name."""
    first, _, rest = name.partition(".")
    inner = fields.get(first)
    if rest:
        return isinstance(inner, Mapping) and _has(inner, rest)
    return inner is not None


def run_hash(settings: dict[str, Any]) -> str:
    """Twelve hexadecimal digits of everything that a run's outcome depends on."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{value!r} is no setting: give numbers, strings, lists and mappings")
