"""`Study`: the runs of a trial, each made once; what is missing of them, and in which order.

Axis legend: item (an example of the evaluation split), cluster (items of one group), seed.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from kept.errors import ConfigError, EvaluationError, NoControlError, NoKnowledgeError
from kept.inputs.controls.conditions import KNOWLEDGE, Knowledge
from kept.lab.study.design import OFF, Plan, RunKey, planned_runs
from kept.lab.study.forecast import OneRun, RunForecast, Work
from kept.lab.study.requests import RequestedRow, read_requested, store_requested
from kept.lab.study.store import (
    RECORDS,
    RunRecord,
    append_record,
    read_records,
    remove_other_files,
)
from kept.lab.study.trial import Answers, Run, Trial
from kept.methods import BASELINE, METHODS
from kept.training.finetuning.answers import ANSWERS, write_answers
from kept.training.processes.together import join_processes, processes
from kg_loaders.disk.writing import claim, tidy
from kg_loaders.errors import InUseError

POLL_SECONDS = 10.0
"""Between two checks of what other processes are running."""
T = TypeVar("T", bound=Trial)


@dataclass(frozen=True, eq=False)
class Study(Generic[T]):
    """The runs of `trial` in its folder: where each lies, whether it is there, how it is made."""

    trial: T

    @property
    def plan(self) -> Plan:
        """What is compared, on which set, by which metric."""
        return self.trial.plan

    @property
    def folder(self) -> Path:
        """The folder of the runs."""
        return self.trial.folder

    def of(self, key: RunKey) -> Run:
        """Return the run of a key; ConfigError for one that cannot be."""
        return Run(key, self.trial.settings(key))

    def record(self, key: RunKey) -> RunRecord | None:
        """Return the finished run, or None."""
        return read_records(self.folder).get(self.of(key).name)

    def keep(self, record: RunRecord) -> RunRecord:
        """Append a finished run to the records."""
        return append_record(self.folder, record)

    def run(self, key: RunKey) -> RunRecord | None:
        """Train, evaluate and record a run; resumes one that was interrupted.

        None: stopped before the end. NoControlError: the control changes nothing here.
        InUseError: another command holds this run, or one that it needs. Where a launcher has
        started several processes, each calls it; the first one looks and writes.
        """
        run, together = self.of(key), processes()
        with together.claimed(self.folder / run.name) as run_folder:
            if (record := together.from_first(lambda: self.record(key))) is not None:
                return record
            if (base := self.trial.same_as(key)) is not None:
                result = self._copied(base, run)
            elif (answers := self.trial.run(key, run_folder)) is not None:
                result = self._recorded(run, answers)
            else:
                result = None
            if result is None:
                return None
            return together.from_first(partial(self._finished, result, run_folder))

    def _recorded(self, run: Run, answers: Answers) -> RunRecord:
        """Write the answers of a run, if it gives any to items, and return its record."""

        def write() -> None:
            run_folder = self.folder / run.name
            run_folder.mkdir(exist_ok=True)
            write_answers(run_folder / ANSWERS, answers.rows)

        if answers.rows:
            processes().from_first(write)
        key = run.key
        return RunRecord(
            run=run.name, experiment=self.plan.name, method=key.method, knowledge=key.knowledge,
            seed=key.seed, scores=answers.scores, costs=answers.costs, settings=run.settings,
            primary=self._primary,
        )  # fmt: skip

    def _copied(self, base: RunKey, run: Run) -> RunRecord | None:
        """Return the record of another run, which is made first, under the name of this one."""
        together = processes()
        record = together.from_first(lambda: self.record(base)) or self.run(base)
        if record is None:
            return None
        copied = partial(shutil.copytree, self.folder / record.run, dirs_exist_ok=True)
        together.from_first(lambda: copied(self.folder / run.name))
        key, costs = run.key, record.costs | {"same_as": record.run}
        return dataclasses.replace(
            record, run=run.name, method=key.method, knowledge=key.knowledge, seed=key.seed,
            costs=costs, settings=run.settings, primary=self._primary,
        )  # fmt: skip

    @property
    def _primary(self) -> dict[str, object] | None:
        contrast = self.plan.primary
        return None if contrast is None else contrast.model_dump(mode="json")

    def _finished(self, record: RunRecord, run_folder: Path) -> RunRecord:
        self.keep(record)
        remove_other_files(run_folder)  # last: a kill leaves files over, but the run counts
        return record

    def tidy(self, key: RunKey) -> None:
        """Remove the leftovers of a process that died after it had recorded the run."""
        run_folder = self.folder / self.of(key).name
        with suppress(InUseError), claim(run_folder):  # the process that holds it is tidying
            remove_other_files(run_folder)
        tidy(self.folder / RECORDS)


def run_missing(
    study: Study[T],
    *,
    methods: Sequence[str],
    controls: Sequence[Knowledge],
    seeds: int,
    announce: Callable[[str], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    forecast: RunForecast | None = None,
    work: Callable[[Iterable[RunKey]], Mapping[RunKey, Work]] | None = None,
) -> RunOutcome:
    """Run what is missing of `methods` and of the baseline, and store what was requested.

    Every kind of plan is run by this function. `forecast` counts the `work` of missing runs. See
    `run_all`.
    """
    name, together = study.plan.name, join_processes(study.trial.device)
    requested = {row: RequestedRow(tuple(controls), seeds) for row in (BASELINE, *methods)}

    def remember(left_out: Mapping[str, dict[Knowledge, str]]) -> None:
        for row, reasons in left_out.items():
            requested[row] = dataclasses.replace(requested[row], left_out=reasons)
        together.from_first(lambda: store_requested(study.folder, name, requested))

    remember({})
    keys = list(planned_runs(methods, controls, seeds))
    for key in dict.fromkeys(dataclasses.replace(key, seed=0) for key in keys):
        study.trial.require(key)
    if nothing := _reasons_if_nothing_reads(study, keys):
        remember(nothing)
        _require_any(methods, nothing)
    forecast = RunForecast(None, announce) if forecast is None else forecast
    count = work or (lambda keys: {k: OneRun() for k in keys if study.record(k) is None})
    forecast.of(together.from_first(lambda: dict(count(keys))))
    outcome = run_all(study, keys, announce=announce, should_stop=should_stop, forecast=forecast)
    remember(outcome.left_out)
    _require_any(methods, outcome.left_out)
    return outcome


def _reasons_if_nothing_reads(
    study: Study[T], keys: Sequence[RunKey]
) -> dict[str, dict[Knowledge, str]]:
    """Return why no method gets anything from the graph; empty where one does, or may.

    The methods are tested in turn, up to the first that reads, before the baseline is trained:
    without a method that reads, its training would be useless.
    """
    reasons: dict[str, dict[Knowledge, str]] = {}
    if all(study.record(key) is not None for key in keys if key.method == BASELINE):
        return reasons
    for key in keys:
        if key.seed == 0 and key.knowledge == "true" and key.method != BASELINE:
            if study.record(key) is not None:
                return {}
            try:
                study.trial.require_reading(key)
            except NoKnowledgeError as error:
                reasons[key.method] = {"true": str(error)}
            else:
                return {}
    return reasons


@dataclass(frozen=True)
class RunOutcome:
    """Finished runs in the order of their keys, and the names of unfinished ones.

    `left_out`: by method, the kinds of knowledge that change nothing there, with the reason.
    """

    done: dict[RunKey, RunRecord]
    missing: list[str]
    left_out: dict[str, dict[Knowledge, str]]

    @property
    def reasons(self) -> dict[str, str]:
        """The reason why each run was left out, by the run's name."""
        reasons: dict[str, str] = {}
        for method, kinds in self.left_out.items():
            reasons |= {f"{method}, knowledge {kind}": why for kind, why in kinds.items()}
        return reasons


def run_all(
    study: Study[T],
    keys: Sequence[RunKey],
    *,
    announce: Callable[[str], None],
    should_stop: Callable[[], bool] = lambda: False,
    forecast: RunForecast | None = None,
) -> RunOutcome:
    """Run what is missing.

    On `should_stop` the current run is left at a checkpoint; the same call resumes it. Several
    commands may share a folder: a run of another one is tried again later. The processes of a
    launcher make each run together, and stop where any of them should.
    """
    together = join_processes(study.trial.device)
    done: dict[RunKey, RunRecord] = {}
    missing: list[str] = []
    left_out: dict[str, dict[Knowledge, str]] = {}
    forecast = RunForecast(None, announce) if forecast is None else forecast
    waiting, n_busy = deque(enumerate(keys, 1)), 0
    while waiting:
        number, key = waiting.popleft()
        record = together.from_first(partial(study.record, key))
        state = "done before" if record is not None else "running"
        announce(f"{number}/{len(keys)} {key}: {state}{forecast.left()}")
        is_stopped = bool(together.largest([int(record is None and should_stop())])[0])
        if record is None and not is_stopped:
            started = time.monotonic()
            forecast.begin(key)
            try:
                record = study.run(key)
            except (NoControlError, NoKnowledgeError) as error:
                left_out.setdefault(key.method, {})[key.knowledge] = str(error)
                forecast.end(key, None)
                continue
            except InUseError:
                announce(f"{number}/{len(keys)} {key}: another process runs it; tried again later")
                waiting.append((number, key))
                n_busy += 1
                if n_busy >= len(waiting):
                    time.sleep(POLL_SECONDS)
                continue
            forecast.end(key, None if record is None else time.monotonic() - started)
        elif record is not None:
            together.from_first(partial(study.tidy, key))
            forecast.end(key, None)
        n_busy = 0
        if record is None:
            missing.append(str(key))
        else:
            done[key] = record
    return RunOutcome({key: done[key] for key in keys if key in done}, missing, left_out)


def _require_any(methods: Sequence[str], left_out: Mapping[str, Mapping[Knowledge, str]]) -> None:
    """Raise NoKnowledgeError where no row but the baseline gets anything from the graph."""
    rows = [name for name in methods if name != BASELINE]
    nothing = [f"{name}: {why}" for name in rows if (why := left_out.get(name, {}).get("true"))]
    if rows and len(nothing) == len(rows):
        raise NoKnowledgeError(f"no method gets anything from the graph. {'; '.join(nothing)}")


def stored_outcome(study: Study[T]) -> RunOutcome:
    """Return the finished runs of a plan; EvaluationError where there are none.

    A run is known by its hash, under whatever name another experiment recorded it. `missing` are
    the requested runs that `kept compare` did not finish.
    """
    records = read_records(study.folder)
    requested = read_requested(study.folder, study.plan.name)
    rows = _row_names(study, requested, records.values())
    kinds = [kind for kind in KNOWLEDGE if any(r.knowledge == kind for r in records.values())]
    done = {
        key: records[name]
        for method in rows
        for kind in (kinds if method != BASELINE else (OFF,))
        for seed in sorted({record.seed for record in records.values()})
        for key in (RunKey(method, kind, seed),)
        if (name := _name(study, key)) in records
    }
    if not done:
        raise EvaluationError(
            f"{study.folder} holds no finished run of {study.plan.name} as it is configured "
            "now; run kept compare"
        )
    requested = {name: row for name, row in requested.items() if name in rows}  # a row may be gone
    keys = dict.fromkeys(
        key
        for name, row in requested.items()
        for key in planned_runs([name], row.controls, row.seeds)
        if key not in done and key.knowledge not in row.left_out
    )
    left_out = {name: dict(row.left_out) for name, row in requested.items()}
    return RunOutcome(done, list(map(str, keys)), left_out)


def _name(study: Study[T], key: RunKey) -> str | None:
    """Return the hash of a run, or None where the row excludes this kind of knowledge."""
    try:
        return study.of(key).name
    except ConfigError:
        return None


def _row_names(
    study: Study[T], requested: Mapping[str, RequestedRow], records: Iterable[RunRecord]
) -> list[str]:
    """Return the baseline, the rows of the file, and then other methods with requests or runs."""
    recorded_methods = {record.method for record in records if record.experiment == study.plan.name}
    others = [name for name in METHODS if name in requested or name in recorded_methods]
    return list(dict.fromkeys((BASELINE, *study.trial.rows, *others)))
