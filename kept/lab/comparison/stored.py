"""Runs in a folder; the address of each is the hash of all that its outcome depends on.

A folder of runs holds

    runs.jsonl     one `RunRecord` per line, appended when a run is finished
    HASH/          answers, log and curves of a run
    pretrained/    models of continued pre-training, shared by runs
    graphs/        the graph without evaluated pairs
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from kept.errors import CheckpointError
from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.experiment import Plan, RunRecord, run_hash
from kept.methods import BASELINE
from kept.training.finetuning.answers import ANSWERS, Answer
from kept.training.processes.together import processes
from kg_loaders.disk.write_errors import write_errors
from kg_loaders.disk.writing import WAIT_SECONDS, claim, sync, tidy
from kg_loaders.errors import InUseError

RECORDS = "runs.jsonl"
Config = TypeVar("Config")
RUN_FILES = (ANSWERS, "log.jsonl", "curves.png")
Arm = tuple[str, Knowledge]
"""A row of a comparison: its name, and its kind of knowledge."""


@dataclass(frozen=True)
class RunKey:
    """Which run of an experiment."""

    method: str
    knowledge: Knowledge
    seed: int

    def __str__(self) -> str:
        return f"{self.method}, knowledge {self.knowledge}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Run(Generic[Config]):
    """A key resolved: how it is trained, and all that the outcome depends on."""

    key: RunKey
    config: Config
    settings: dict[str, Any]

    @cached_property
    def name(self) -> str:
        """The hash of `settings`, the run's address."""
        return run_hash(self.settings)


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


class StoredRuns(ABC):
    """Reads, makes and records the runs of `plan` in `folder`."""

    folder: Path

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """What is compared, on which set, by which metric."""

    @abstractmethod
    def of(self, key: RunKey) -> Run[Any]:
        """The run of a key; ConfigError for one that cannot be."""

    @abstractmethod
    def make(self, key: RunKey) -> RunRecord | None:
        """Train and evaluate a run, whose folder is claimed; see `run`."""

    @abstractmethod
    def counted(self, answers: Sequence[Answer], path: Path) -> list[Answer]:
        """Answers that `path` holds without counts, with them; CheckpointError where it cannot."""

    def require(self, key: RunKey) -> None:
        """Raise `ConfigError` for settings with which a run could not begin."""
        self.of(key)

    def require_reading(self, key: RunKey) -> None:
        """Raise `NoKnowledgeError` where a run gets nothing from the graph, without training it.

        Nothing is raised where that is known only after a stage of pre-training.
        """
        self.require(key)

    @property
    def device(self) -> str:
        """The device that it is trained on, which decides how several processes communicate."""
        return "auto"

    @property
    def rows(self) -> Sequence[str]:
        """The rows that the plan names, without the baseline."""
        return ()

    def rivals(self, method: str) -> Sequence[Arm]:
        """Rows that `method` is compared with, other than the baseline and its controls."""
        return ()

    def record(self, key: RunKey) -> RunRecord | None:
        """The finished run, or None."""
        return read_records(self.folder).get(self.of(key).name)

    def run(self, key: RunKey) -> RunRecord | None:
        """Train, evaluate and record a run; resumes one that was interrupted.

        None: stopped before the end. NoControlError: the control changes nothing here.
        InUseError: another command holds this run, or one that it needs. Where a launcher has
        started several processes, each calls it; the first one looks and writes.
        """
        together = processes()
        with together.claimed(self.folder / self.of(key).name) as run_folder:
            if (record := together.from_first(lambda: self.record(key))) is not None:
                return record
            if (result := self.make(key)) is None:
                return None
            return together.from_first(lambda: self._finished(result, run_folder))

    def _finished(self, record: RunRecord, run_folder: Path) -> RunRecord:
        self.keep(record)
        remove_other_files(
            run_folder
        )  # last: if killed before, files are left over, but the run counts
        return record

    def tidy(self, key: RunKey) -> None:
        """Remove the leftovers of a process that died after it had recorded the run."""
        run_folder = self.folder / self.of(key).name
        with suppress(InUseError), claim(run_folder):  # the process that holds it is tidying
            remove_other_files(run_folder)
        tidy(self.folder / RECORDS)

    def keep(self, record: RunRecord) -> RunRecord:
        """Append a finished run to the records."""
        with claim(self.folder / RECORDS, wait=WAIT_SECONDS) as path, write_errors(path):
            with path.open("a+b") as file:
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)  # drop a line cut by a kill
                file.write(msgspec.json.encode(record) + b"\n")
            sync(path)
        return record


def read_records(folder: Path) -> dict[str, RunRecord]:
    """The finished runs of a folder by their hashes; CheckpointError for a line that is none.

    A last line without its end was cut by a kill, and is not counted.
    """
    path = folder / RECORDS
    if not path.exists():
        return {}
    records = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = msgspec.json.decode(line, type=RunRecord)
        except msgspec.DecodeError as error:
            raise CheckpointError(
                f"{path}:{number} is no run ({error}); remove the line"
            ) from error
        records[record.run] = record
    return records


def remove_other_files(folder: Path) -> None:
    """Remove all but the answers, log and curves from the folder of a finished run or training."""
    for path in sorted(folder.glob("*")):
        if path.name not in RUN_FILES:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
