"""`Experiment`: a task with all that its runs share, as one YAML file.

An experiment names data, knowledge, training, and the published numbers; a run of it is one method
with one kind of knowledge and one seed. Paths in the file are relative to the folder that the
variable KEPT_DATA names, unless absolute.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

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

from kept.evaluation.paired import Value
from kept.evaluation.published import Published
from kept.inputs.lengths import with_lengths
from kept.lab.comparison.files import fields_of_experiment
from kept.lab.reading.verdicts import stored_verdict
from kept.lab.study.design import DEFAULT_SEEDS, DOES_NOT_READ, Design, PrimaryContrast
from kept.lab.study.store import RunRecord
from kept.methods import BASELINE, METHODS, method, method_key, title
from kept.options import merged
from kept.tasks.scores.official_scores import OFFICIAL
from kept.training.config import TrainConfig, with_auto_precision
from kept.training.finetuning.recipes import with_recipe

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
DEFAULT_HOST = "minilm"


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


class Experiment(Design):
    """A task with everything that its runs share.

    `task` are fields of `FinetuneConfig`; its `kg` may also be a name of
    `kept.tasks.datasets.public_graphs`. `methods` are the rows, every method where it is not given,
    with the fields that differ; a name of your own with `method` among its fields is a variant of
    that method. No row has splits, kinds of knowledge or seeds of its own. `metric` names the score
    that tables and verdicts read (`accuracy`, `micro`, or `official` where the format has one; of a
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
        return fields_of_experiment(path)

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
        both the recipe of its method, texts as long as the host takes them (unless the file gives
        `graph.max_words`), and the faster precision, unless it is `as_published`."""
        fields = merged(self.task, self.methods.get(name, {}))
        if self.as_published:
            return fields
        completed = with_recipe({**fields, "method": self.variant_of(name)})
        if "max_words" not in (fields.get("graph") or {}):
            completed = with_lengths(completed)
        return with_auto_precision(completed)

    def variant_of(self, name: str) -> str:
        """The method that row `name` trains; ConfigError for a name that is none."""
        return method_key(self.methods.get(name, {}).get("method", name))

    def title(self, name: str) -> str:
        """What tables call row `name`: as its paper does, or a variant as the file does."""
        return title(name) if self.variant_of(name) == name else name

    @property
    def value(self) -> Value:
        """Return the function from summed counts to the score; an official one is the format's."""
        if self.metric != "official":
            return super().value
        values = OFFICIAL[self.task["format"]].values
        return lambda sums: next(iter(values(sums).values()))

    def setup(self, records: Sequence[RunRecord]) -> str:
        """Return the continued pre-training in words, with the number of texts that were read."""
        stage = self.pretraining
        if stage is None:
            return "No continued pre-training."
        n_texts = [n for record in records if (n := record.costs.get("n_texts"))]
        n_read = f"{n_texts[0]:,} " if n_texts else ""
        is_all = bool(n_texts) and n_texts[0] == stage.n_texts
        more = "" if is_all else f"; {stage.n_texts:,} were requested"
        return (
            f"Every method first reads the same {n_read}linked sentences ({stage.text}{more}), for "
            "the same steps; seeds of the task share that training."
        )

    def remedy(self, name: str) -> str:
        """See `Design.remedy`."""
        if not self.as_published or name == BASELINE:
            return super().remedy(name)
        return (
            "papers' settings read little at a small budget; write your own task file "
            f"(extends: {self.name}, as_published: false)"
        )

    def does_not_read(self, name: str, record: RunRecord) -> str:
        """Return the words in which the committed reading controls say that row `name` reads no
        fact so soon, with their budget.

        "" where no control was run on the row's host, or none that long, or where the record
        does not say how many steps there were (docs/explanations/reading.md).
        """
        if "steps" not in record.costs:
            return ""
        fields = self.row(name)
        verdict = stored_verdict(
            self.variant_of(name),
            int(record.costs["steps"]),
            fields,
            host=str(fields.get("host", DEFAULT_HOST)),
        )
        return verdict.in_words if verdict and verdict.verdict == DOES_NOT_READ else ""


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
