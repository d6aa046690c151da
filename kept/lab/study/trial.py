"""`Trial`: what differs from study to study. The engine (`kept.lab.study.run`) does the rest.

A new study gives the settings that decide a run, and a function that trains and answers. Where a
run lies, that it is made once, what is missing, intervals, verdicts and tables follow from these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kept.errors import CheckpointError
from kept.lab.study.addresses import run_hash
from kept.lab.study.design import Arm, Plan, RunKey
from kept.training.finetuning.answers import Answer


@dataclass(frozen=True, eq=False)
class Run:
    """A run with all that its outcome depends on."""

    key: RunKey
    settings: dict[str, Any]

    @cached_property
    def name(self) -> str:
        """The hash of `settings`, the run's address."""
        return run_hash(self.settings)


@dataclass(frozen=True)
class Answers:
    """The results of a run: an answer to every item of every set, scores by set, and costs.

    A study that stores its items in another form gives no `rows`.
    """

    rows: Sequence[Answer]
    scores: dict[str, Any]
    costs: dict[str, Any]


class Trial(ABC):
    """How the runs of `plan` are made; they lie in `folder`."""

    folder: Path

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """What is compared, on which set, by which metric."""

    @abstractmethod
    def settings(self, key: RunKey) -> dict[str, Any]:
        """Return all that a run's outcome depends on; ConfigError for one that cannot be."""

    @abstractmethod
    def run(self, key: RunKey, run_folder: Path) -> Answers | None:
        """Train and answer, checkpoints in `run_folder`; resumes. None: stopped before the end.

        NoControlError: the control changes nothing here. Where a launcher has started several
        processes, each calls it.
        """

    def same_as(self, key: RunKey) -> RunKey | None:
        """Return the run whose answers are those of `key`, which is then not made; else None."""
        return None

    def require(self, key: RunKey) -> None:
        """Raise `ConfigError` for settings with which a run could not begin."""
        self.settings(key)

    def require_reading(self, key: RunKey) -> None:
        """Raise `NoKnowledgeError` where a run gets nothing from the graph, without training it.

        Nothing is raised where that is known only after a stage of pre-training.
        """
        self.require(key)

    def counted(self, answers: Sequence[Answer], path: Path) -> list[Answer]:
        """Return answers that `path` holds without counts, with them; CheckpointError: it cannot.

        Every run stores its counts, but those of experiments before 0.2.
        """
        raise CheckpointError(
            f"{path} has no answers to {self.plan.asked} with their counts; remove its folder and "
            "give the command again"
        )

    @property
    def device(self) -> str:
        """The device that it is trained on, which decides how several processes communicate."""
        return "auto"

    @property
    def rows(self) -> Sequence[str]:
        """The rows that the plan names, without the baseline."""
        return ()

    def rivals(self, method: str) -> Sequence[Arm]:
        """Return rows that `method` is compared with, other than the baseline and its controls."""
        return ()
