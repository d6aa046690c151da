"""`kept compare`: every method beside its controls over seeds, with intervals, tests and a verdict.

Axis legend: item (an asked example), cluster (items of one group), seed.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kept.comparison.experiment import Experiment, RunRecord
from kept.comparison.judging import Judge
from kept.comparison.requested import AskedRow, read_asked, remember
from kept.comparison.runs import ExperimentRuns, RunKey, planned, read_records
from kept.controls.conditions import KNOWLEDGE, Knowledge
from kept.errors import ConfigError, EvaluationError, NoControlError, NoKnowledgeError
from kept.evaluation.paired import (
    difference_interval,
    score_interval,
    swap_test,
)
from kept.evaluation.statistics import Interval, holm, seed_interval, verdict
from kept.graphs.coverage import caution
from kept.methods import BASELINE, METHODS
from kept.randomness import generator
from kept.training.log import Reporter
from kg_loaders.errors import InUseError

Floats = NDArray[np.float64]
Arm = tuple[str, Knowledge]
OFF: Knowledge = "off"
POLL_SECONDS = 10.0
"""Between two looks at what other processes are at."""


@dataclass(frozen=True)
class ComparedRow:
    """A method with one kind of knowledge: its score over all seeds.

    `pooled`: of the answers of all seeds together, groups of items drawn. `over_seeds`: the mean
    of the seeds' scores with Student's interval, None for one seed. `n` items, asked once a seed;
    of `n_asked` the others were cut off with their texts.
    """

    method: str
    knowledge: Knowledge
    pooled: Interval
    seeds: tuple[float, ...]
    over_seeds: Interval | None
    n: int
    n_asked: int
    records: tuple[RunRecord, ...]

    @property
    def record(self) -> RunRecord:
        """Of the first seed."""
        return self.records[0]


@dataclass(frozen=True)
class ComparedPair:
    """A method with true knowledge minus `theirs`; `holm` is p corrected over the whole table."""

    method: str
    title: str
    theirs: tuple[str, Knowledge]
    difference: Interval
    p: float
    holm: float

    @property
    def is_better(self) -> bool:
        """By the rule of `kept.evaluation.statistics.verdict`, p corrected."""
        return self.holm < 0.05 and self.difference.low > 0

    @property
    def is_worse(self) -> bool:
        """The other way round."""
        return self.holm < 0.05 and self.difference.high < 0

    @property
    def in_words(self) -> str:
        """The verdict on this pair."""
        name, knowledge = self.theirs
        theirs = name if name == BASELINE else f"knowledge {knowledge}"
        return verdict(self.difference, self.holm, ours=self.title, theirs=theirs)


@dataclass(frozen=True)
class Compared:
    """Everything that tables and reports read.

    `missing`: runs there was no time for. `left_out`: runs that would be no control, or get nothing
    from the graph, with why. `baseline`: the majority's score. `n_regrouped`: runs that were stored
    with other groups.
    """

    experiment: Experiment
    rows: tuple[ComparedRow, ...]
    pairs: tuple[ComparedPair, ...]
    missing: tuple[str, ...]
    left_out: Mapping[str, str]
    baseline: float | None
    n_regrouped: int = 0

    def coverage(self, name: str, knowledge: str = "true") -> dict[str, Any] | None:
        """`Coverage.as_json` of what a row was asked; None where its run is of before there was."""
        for row in self.rows:
            if (row.method, row.knowledge) == (name, knowledge):
                scores: Mapping[str, Any] = row.record.scores[self.experiment.asked]
                return scores.get("coverage")
        return None

    @property
    def cautions(self) -> list[str]:
        """A line for every row with true knowledge that reads the graph in a low share."""
        names = [row.method for row in self.rows if row.knowledge == "true"]
        lines = (caution(self.coverage(n), self.experiment.title(n)) for n in names)
        return [line for line in lines if line is not None]

    def conclusion(self, name: str) -> str:
        """What the pairs of a method say together: is it better, and is it what the facts say?"""
        pairs = {pair.theirs: pair for pair in self.pairs if pair.method == name}
        base = pairs.pop((BASELINE, "off"), None)
        if base is None:
            return "not compared with none"
        if not base.is_better:
            return "worse than none" if base.is_worse else "no difference to none is shown"
        equal = [knowledge for (_, knowledge), pair in pairs.items() if not pair.is_better]
        if equal:
            return f"better than none, not shown to be better than {' or '.join(equal)}"
        if any(run.startswith((f"{name}, ", f"{BASELINE}, ")) for run in self.missing):
            return "better than none so far; not every run is finished"
        if not pairs:
            return "better than none; no control was run"
        arms = (row for row in self.rows if row.method in (name, BASELINE))
        return "knowledge helps" + (
            "" if all(len(row.seeds) > 1 for row in arms) else ", by one seed"
        )


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
    """Run what is not done, seed by seed, and compare what is there.

    On `should_stop` what is running is left at a checkpoint; the same call goes on. Several
    processes may share a folder: what another is at is asked for again later. A row that gets
    nothing from the graph is left out, with the reason; NoKnowledgeError where every one does.
    """
    runs = ExperimentRuns(experiment, root, folder, reporter, should_stop)
    asked = {name: AskedRow(tuple(controls), seeds) for name in (BASELINE, *methods)}
    remember(folder, experiment.name, asked)
    keys = list(planned(methods, controls, seeds))
    for key in dict.fromkeys(dataclasses.replace(key, seed=0) for key in keys):
        runs.require(key)
    done: dict[RunKey, RunRecord] = {}
    missing: list[str] = []
    left_out: dict[str, dict[Knowledge, str]] = {}
    clock, waiting, n_busy = _Clock(), deque(enumerate(keys, 1)), 0
    while waiting:
        number, key = waiting.popleft()
        found = runs.record(key)
        state = "done before" if found is not None else "running"
        announce(f"{number}/{len(keys)} {key}: {state}{clock.left(len(waiting) + 1)}")
        if found is None and not should_stop():
            started = time.monotonic()
            try:
                found = runs.run(key)
            except (NoControlError, NoKnowledgeError) as error:
                left_out.setdefault(key.method, {})[key.knowledge] = str(error)
                continue
            except InUseError:
                announce(f"{number}/{len(keys)} {key}: another process is at it; later")
                waiting.append((number, key))
                n_busy += 1
                if n_busy >= len(waiting):
                    time.sleep(POLL_SECONDS)
                continue
            clock.took(time.monotonic() - started)
        elif found is not None:
            runs.tidy(key)
        n_busy = 0
        if found is None:
            missing.append(str(key))
        else:
            done[key] = found
    asked |= {n: dataclasses.replace(asked[n], left_out=why) for n, why in left_out.items()}
    remember(folder, experiment.name, asked)
    _require_any(methods, left_out)
    done = {key: done[key] for key in keys if key in done}
    return summarise(runs, done, missing, _named(left_out))


def _require_any(methods: Sequence[str], left_out: Mapping[str, Mapping[Knowledge, str]]) -> None:
    """Raise NoKnowledgeError where no row but the baseline gets anything from the graph."""
    rows = [name for name in methods if name != BASELINE]
    nothing = [f"{name}: {why}" for name in rows if (why := left_out.get(name, {}).get("true"))]
    if rows and len(nothing) == len(rows):
        raise NoKnowledgeError(f"no method gets anything from the graph. {'; '.join(nothing)}")


def finished(runs: ExperimentRuns) -> Compared:
    """What is there of an experiment, whoever ran it; EvaluationError when nothing is.

    A run is known by its hash, under whatever name another experiment recorded it. `missing` are
    the runs that `kept compare` was asked for and did not finish.
    """
    records = read_records(runs.folder)
    asked = read_asked(runs.folder, runs.experiment.name)
    rows = _rows_of(runs.experiment, asked, records.values())
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
            f"{runs.folder} holds no finished run of {runs.experiment.name} as it is configured "
            "now; run kept compare"
        )
    asked = {name: row for name, row in asked.items() if name in rows}  # a row may be gone
    wanted = dict.fromkeys(
        key
        for name, row in asked.items()
        for key in planned([name], row.controls, row.seeds)
        if key not in done and key.knowledge not in row.left_out
    )
    left_out = {name: row.left_out for name, row in asked.items()}
    return summarise(runs, done, list(map(str, wanted)), _named(left_out))


def _name(runs: ExperimentRuns, key: RunKey) -> str | None:
    """The hash of a run; None for one that cannot be, as a row may go with some kinds alone."""
    try:
        return runs.of(key).name
    except ConfigError:
        return None


def _rows_of(
    experiment: Experiment, asked: Mapping[str, AskedRow], records: Iterable[RunRecord]
) -> list[str]:
    """The file's rows and the methods that were asked for beside them, the baseline first."""
    own = {record.method for record in records if record.experiment == experiment.name}
    others = [name for name in METHODS if name in asked or name in own]
    return list(dict.fromkeys((BASELINE, *experiment.methods, *others)))


def _named(left_out: Mapping[str, Mapping[Knowledge, str]]) -> dict[str, str]:
    return {
        f"{method}, knowledge {kind}": why
        for method, kinds in left_out.items()
        for kind, why in kinds.items()
    }


def summarise(
    runs: ExperimentRuns,
    done: Mapping[RunKey, RunRecord],
    missing: Sequence[str] = (),
    left_out: Mapping[str, str] | None = None,
) -> Compared:
    """Rows and pairs of finished runs; a pair has the seeds that both sides have.

    Raises EvaluationError where two runs answered different items.
    """
    judge, arms = Judge(runs), dict[Arm, dict[int, RunRecord]]()
    judge.require_same_items(done.values())
    for key, record in done.items():
        arms.setdefault((key.method, key.knowledge), {})[key.seed] = record
    counts = {
        arm: {seed: judge.counts(record) for seed, record in records.items()}
        for arm, records in arms.items()
    }
    return Compared(
        experiment=runs.experiment,
        rows=tuple(_row(judge, arm, records, counts[arm]) for arm, records in arms.items()),
        pairs=tuple(_pairs(judge, arms, counts)),
        missing=tuple(missing),
        left_out=dict(left_out or {}),
        baseline=next(map(judge.majority, done.values()), None),
        n_regrouped=judge.n_regrouped(done.values()),
    )


def _row(
    judge: Judge, arm: Arm, records: Mapping[int, RunRecord], counts: Mapping[int, Floats]
) -> ComparedRow:
    experiment = judge.runs.experiment
    draws = generator(0, "compare", experiment.name)
    found = [record.scores[experiment.asked] for record in records.values()]
    scores = [judge.score(each) for each in counts.values()]
    return ComparedRow(
        method=arm[0],
        knowledge=arm[1],
        pooled=score_interval(_pooled(counts.values()), judge.value, generator=draws),
        seeds=tuple(scores),
        over_seeds=seed_interval(scores) if len(scores) > 1 else None,
        n=int(found[0]["n_scored"]),
        n_asked=int(found[0]["n_asked"]),
        records=tuple(records.values()),
    )


def _pairs(
    judge: Judge,
    arms: Mapping[Arm, Mapping[int, RunRecord]],
    counts: Mapping[Arm, Mapping[int, Floats]],
) -> list[ComparedPair]:
    found: list[tuple[str, str, Arm, Interval, float]] = []
    for name in dict.fromkeys(method for method, knowledge in arms if knowledge == "true"):
        others = [arm for arm in arms if arm[0] == name and arm[1] != "true"]
        own = [arm for arm in others if not _is_copy(arms[arm])]
        for theirs in [(BASELINE, OFF), *own]:
            seeds = [s for s in counts[name, "true"] if s in counts.get(theirs, {})]
            if not seeds:
                continue
            ours = _pooled(counts[name, "true"][s] for s in seeds)
            other = _pooled(counts[theirs][s] for s in seeds)
            draws = generator(0, "compare", judge.runs.experiment.name, "pairs")
            interval = difference_interval(ours, other, judge.value, generator=draws)
            p = swap_test(ours, other, judge.value, generator=draws)
            found.append((name, judge.runs.experiment.title(name), theirs, interval, p))
    corrected = holm([p for *_, p in found])
    return [ComparedPair(*row, h) for row, h in zip(found, corrected, strict=True)]


def _is_copy(records: Mapping[int, RunRecord]) -> bool:
    return all("same_as" in record.costs for record in records.values())


def _pooled(counts: Any) -> Floats:
    return np.asarray(sum(counts), np.float64)


class _Clock:
    """Time left, from the runs of this process."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def took(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def left(self, n_left: int) -> str:
        if not self._seconds:
            return ""
        seconds = n_left * sum(self._seconds) / len(self._seconds)
        return f", at most {seconds / 60:.0f} minutes left"
