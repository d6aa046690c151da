"""`kept compare`: each method with its controls over seeds, with intervals, tests and a verdict.

Axis legend: item (an example of the evaluation split), cluster (items of one group), seed.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kept.errors import ConfigError, EvaluationError, NoControlError, NoKnowledgeError
from kept.inputs.controls.conditions import KNOWLEDGE, Knowledge
from kept.lab.comparison.compared import Compared
from kept.lab.comparison.experiment import Experiment, RunRecord
from kept.lab.comparison.forecast import OneRun, RunForecast, Work
from kept.lab.comparison.pages.summary import OFF, summarise
from kept.lab.comparison.requested import RequestedRow, read_requested, store_requested
from kept.lab.comparison.runs import ExperimentRuns
from kept.lab.comparison.stored import RunKey, StoredRuns, planned_runs, read_records
from kept.lab.comparison.work import work_of_runs
from kept.methods import BASELINE, METHODS
from kept.training.log import Reporter
from kept.training.processes.together import join_processes
from kg_loaders.errors import InUseError

POLL_SECONDS = 10.0
"""Between two checks of what other processes are running."""


def compare(
    experiment: Experiment,
    *,
    root: Path,
    folder: Path,
    methods: Sequence[str],
    controls: Sequence[Knowledge],
    seeds: int,
    announce: Callable[[str], None] = lambda _: None,
    reporter: Reporter | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Compared:
    """Run what is missing, seed by seed, and compare the finished runs.

    A row that gets nothing from the graph is left out, with the reason; NoKnowledgeError where
    every one does. See `run_all`.
    """
    forecast = RunForecast(reporter, announce)
    runs = ExperimentRuns(experiment, root, folder, forecast, should_stop)
    outcome = run_missing(
        runs, methods=methods, controls=controls, seeds=seeds, announce=announce,
        should_stop=should_stop, forecast=forecast, work=partial(work_of_runs, runs),
    )  # fmt: skip
    return summarise(runs, outcome.done, outcome.missing, reasons_by_run(outcome.left_out))


def run_missing(
    runs: StoredRuns,
    *,
    methods: Sequence[str],
    controls: Sequence[Knowledge],
    seeds: int,
    announce: Callable[[str], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    forecast: RunForecast | None = None,
    work: Callable[[Iterable[RunKey]], Mapping[RunKey, Work]] | None = None,
) -> RunOutcome:
    """Run what is missing of `methods` beside the baseline, and remember what was requested.

    The door for every kind of plan; `forecast` goes by the `work` of missing runs. See `run_all`.
    """
    folder, name, together = runs.folder, runs.plan.name, join_processes(runs.device)
    requested = {row: RequestedRow(tuple(controls), seeds) for row in (BASELINE, *methods)}
    together.from_first(lambda: store_requested(folder, name, requested))
    keys = list(planned_runs(methods, controls, seeds))
    for key in dict.fromkeys(dataclasses.replace(key, seed=0) for key in keys):
        runs.require(key)
    if nothing := _reasons_if_nothing_reads(runs, keys):
        requested |= {n: dataclasses.replace(requested[n], left_out=w) for n, w in nothing.items()}
        together.from_first(lambda: store_requested(folder, name, requested))
        _require_any(methods, nothing)
    forecast = RunForecast(None, announce) if forecast is None else forecast
    count = work or (lambda keys: {k: OneRun() for k in keys if runs.record(k) is None})
    forecast.of(together.from_first(lambda: dict(count(keys))))
    outcome = run_all(runs, keys, announce=announce, should_stop=should_stop, forecast=forecast)
    requested |= {
        n: dataclasses.replace(requested[n], left_out=why) for n, why in outcome.left_out.items()
    }
    together.from_first(lambda: store_requested(folder, name, requested))
    _require_any(methods, outcome.left_out)
    return outcome


@dataclass(frozen=True)
class RunOutcome:
    """Finished runs in the order of their keys, and the names of unfinished ones.

    `left_out`: by method, the kinds of knowledge that change nothing there, with the reason.
    """

    done: dict[RunKey, RunRecord]
    missing: list[str]
    left_out: dict[str, dict[Knowledge, str]]


def run_all(
    runs: StoredRuns,
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
    together = join_processes(runs.device)
    done: dict[RunKey, RunRecord] = {}
    missing: list[str] = []
    left_out: dict[str, dict[Knowledge, str]] = {}
    forecast = RunForecast(None, announce) if forecast is None else forecast
    waiting, n_busy = deque(enumerate(keys, 1)), 0
    while waiting:
        number, key = waiting.popleft()
        record = together.from_first(partial(runs.record, key))
        state = "done before" if record is not None else "running"
        announce(f"{number}/{len(keys)} {key}: {state}{forecast.left()}")
        is_stopped = bool(together.largest([int(record is None and should_stop())])[0])
        if record is None and not is_stopped:
            started = time.monotonic()
            forecast.begin(key)
            try:
                record = runs.run(key)
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
            together.from_first(partial(runs.tidy, key))
            forecast.end(key, None)
        n_busy = 0
        if record is None:
            missing.append(str(key))
        else:
            done[key] = record
    return RunOutcome({key: done[key] for key in keys if key in done}, missing, left_out)


def _reasons_if_nothing_reads(
    runs: StoredRuns, keys: Sequence[RunKey]
) -> dict[str, dict[Knowledge, str]]:
    """Return why no method gets anything from the graph; empty where one does, or may.

    Looked at before the baseline is trained, which would be of no use then: the methods in turn, up
    to the first that reads.
    """
    reasons: dict[str, dict[Knowledge, str]] = {}
    if all(runs.record(key) is not None for key in keys if key.method == BASELINE):
        return reasons
    for key in keys:
        if key.seed == 0 and key.knowledge == "true" and key.method != BASELINE:
            if runs.record(key) is not None:
                return {}
            try:
                runs.require_reading(key)
            except NoKnowledgeError as error:
                reasons[key.method] = {"true": str(error)}
            else:
                return {}
    return reasons


def _require_any(methods: Sequence[str], left_out: Mapping[str, Mapping[Knowledge, str]]) -> None:
    """Raise NoKnowledgeError where no row but the baseline gets anything from the graph."""
    rows = [name for name in methods if name != BASELINE]
    nothing = [f"{name}: {why}" for name in rows if (why := left_out.get(name, {}).get("true"))]
    if rows and len(nothing) == len(rows):
        raise NoKnowledgeError(f"no method gets anything from the graph. {'; '.join(nothing)}")


def finished(runs: StoredRuns) -> Compared:
    """Return the finished runs of a plan, compared; EvaluationError where there are none.

    See `stored_outcome`.
    """
    outcome = stored_outcome(runs)
    return summarise(runs, outcome.done, outcome.missing, reasons_by_run(outcome.left_out))


def stored_outcome(runs: StoredRuns) -> RunOutcome:
    """Return the finished runs of a plan; EvaluationError where there are none.

    A run is known by its hash, under whatever name another experiment recorded it. `missing` are
    the requested runs that `kept compare` did not finish.
    """
    records = read_records(runs.folder)
    requested = read_requested(runs.folder, runs.plan.name)
    rows = _row_names(runs, requested, records.values())
    kinds = [kind for kind in KNOWLEDGE if any(r.knowledge == kind for r in records.values())]
    done = {
        key: records[name]
        for method in rows
        for kind in (kinds if method != BASELINE else (OFF,))
        for seed in sorted({record.seed for record in records.values()})
        for key in (RunKey(method, kind, seed),)
        if (name := _name(runs, key)) in records
    }
    if not done:
        raise EvaluationError(
            f"{runs.folder} holds no finished run of {runs.plan.name} as it is configured "
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


def _name(runs: StoredRuns, key: RunKey) -> str | None:
    """Return the hash of a run, or None where the row excludes this kind of knowledge."""
    try:
        return runs.of(key).name
    except ConfigError:
        return None


def _row_names(
    runs: StoredRuns, requested: Mapping[str, RequestedRow], records: Iterable[RunRecord]
) -> list[str]:
    """Return the baseline, the rows of the file, and then other methods with requests or runs."""
    recorded_methods = {record.method for record in records if record.experiment == runs.plan.name}
    others = [name for name in METHODS if name in requested or name in recorded_methods]
    return list(dict.fromkeys((BASELINE, *runs.rows, *others)))


def reasons_by_run(left_out: Mapping[str, Mapping[Knowledge, str]]) -> dict[str, str]:
    """Return the reason why each run was left out, by the run's name."""
    return {
        f"{method}, knowledge {kind}": why
        for method, kinds in left_out.items()
        for kind, why in kinds.items()
    }
