"""What a study compares: rows, each under kinds of knowledge and seeds, on one metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, PositiveFloat, field_validator

from kept.evaluation.correlation import CORRELATIONS
from kept.evaluation.paired import Value, f1_value
from kept.evaluation.published import Published
from kept.inputs.controls.conditions import Knowledge
from kept.methods import BASELINE
from kept.training.config import RunConfig

if TYPE_CHECKING:
    from kept.lab.study.store import RunRecord

OFF: Knowledge = "off"
DOES_NOT_READ = "does not read facts"
"""What a reading control says of a method whose score does not depend on facts; a page says within
which budget (steps, layers, seeds)."""
DEFAULT_SEEDS = 10
"""With three, few differences of a published size are seen (`benchmarks/models/intervals.md`)."""
Arm = tuple[str, Knowledge]
"""A row of a comparison: its name, and its kind of knowledge."""


@dataclass(frozen=True)
class RunKey:
    """Which run of a study: its row, the condition that the row is under, and the seed."""

    method: str
    knowledge: Knowledge
    seed: int

    def __str__(self) -> str:
        return f"{self.method}, knowledge {self.knowledge}, seed {self.seed}"


def planned_runs(
    methods: Sequence[str], controls: Sequence[Knowledge], seeds: int
) -> Iterator[RunKey]:
    """All runs, seed by seed, so that what is done first is whole: the baseline before all."""
    for seed in range(seeds):
        yield RunKey(BASELINE, "off", seed)
        for name in methods:
            if name != BASELINE:
                for knowledge in ("true", *controls):
                    yield RunKey(name, knowledge, seed)


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
    """What tables and verdicts read of a study's file; a `Design` has the methods.

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
    def published(self) -> tuple[Published, ...]: ...
    @property
    def differs(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def value(self) -> Value: ...
    def title(self, name: str) -> str: ...
    def setup(self, records: Sequence[RunRecord]) -> str: ...
    def remedy(self, name: str) -> str: ...
    def does_not_read(self, name: str, record: RunRecord) -> str: ...
    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


class Design(RunConfig):
    """A study's file: subclasses give the fields of `Plan`, and methods where theirs differ."""

    @property
    def value(self) -> Value:
        """Return the function from summed counts to the score."""
        metric: str = getattr(self, "metric")  # noqa: B009 - a field of every subclass
        return CORRELATIONS[metric][1] if metric in CORRELATIONS else f1_value

    def title(self, name: str) -> str:
        """Return what tables call row `name`."""
        return name

    def setup(self, records: Sequence[RunRecord]) -> str:
        """Return in a sentence what all rows share before they are trained on the task."""
        return ""

    def remedy(self, name: str) -> str:
        """Return what to do about row `name`, whose score is low for no visible reason."""
        return "give task.training more steps, or let `tuning:` choose the learning rate"

    def does_not_read(self, name: str, record: RunRecord) -> str:
        """Return the words in which row `name` is known not to read a fact within the budget of
        `record`; "" where that is not known."""
        return ""
