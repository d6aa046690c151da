"""Every method beside its controls on one relation task, and what each of them costs.

`compare_methods` runs what is not done yet. A finished run leaves its answers in a small file of
its folder and is not repeated; one that was cut goes on from its checkpoint.

Axis legend: item (an asked example).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from kept.completion.compare import data_fingerprint
from kept.completion.method_runs import MethodRuns, MethodsConfig, Outcome, drop_weights
from kept.completion.split import CompletionSplit
from kept.controls.conditions import COMPARED, Knowledge, objectives_of
from kept.datasets.example import TaskExample, clusters
from kept.errors import CheckpointError, ConfigError
from kept.evaluation.statistics import (
    Interval,
    bootstrap_interval,
    paired_bootstrap_interval,
    sign_flip_test,
    verdict,
)
from kept.finetuning.scores import Baseline
from kept.heads.model import SINGLE
from kept.methods import BASELINE, METHODS, method_key, title
from kept.objectives.relation_pairs import joined_pairs
from kept.pretraining.data import linked_entities
from kept.randomness import generator
from kept.training.log import Reporter
from kg_loaders import KnowledgeGraph
from kg_loaders.disk.writing import write_bytes, write_json

OUTCOME, CLAIM = "outcome.json", "run.json"
ALL = "all"


@dataclass(frozen=True)
class Row:
    """Accuracy of one run in a setting, `n` items; intervals draw pairs of entities."""

    setting: str
    method: str
    knowledge: Knowledge | None
    accuracy: Interval
    n: int


@dataclass(frozen=True)
class Difference:
    """A method with true knowledge minus `theirs` in accuracy on the same items."""

    setting: str
    method: str
    theirs: str
    accuracy: Interval
    p: float

    @property
    def verdict(self) -> str:
        """In words, by the rule of `kept.evaluation.statistics.verdict`."""
        return verdict(self.accuracy, self.p, ours=title(self.method), theirs=self.theirs)


@dataclass(frozen=True)
class MethodComparison:
    """Everything a report needs. `missing`: runs that there was no time for.

    `stated`: by knowledge, the share of training sentences two of whose mentions a triple joins.
    """

    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    outcomes: tuple[Outcome, ...]
    missing: tuple[str, ...]
    stated: Mapping[str, float]


def method_names(text: str, known: Sequence[str] = tuple(METHODS)) -> tuple[str, ...]:
    """Names apart by commas, or all that are `known`; `ConfigError` for one that is no method.

    >>> method_names("K-BERT, ernie")
    ('kbert', 'ernie')
    """
    if text.strip() == ALL:
        return tuple(known)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"name methods apart by commas, or {ALL}; there are {list(known)}")
    own = {name.casefold(): name for name in known}  # rows of a file may have names of their own
    return tuple(dict.fromkeys(own.get(name.casefold()) or method_key(name) for name in names))


def compare_methods(
    split: CompletionSplit,
    config: MethodsConfig,
    folder: Path,
    *,
    reporter: Reporter | None = None,
    announce: Callable[[str], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> MethodComparison:
    """Run or read every method with every kind of knowledge, the baseline first, then compare.

    When `should_stop` says so, what is running is left at a checkpoint and the rest is `missing`.
    Raises `CheckpointError` for a folder of another configuration or other data.
    """
    runs = MethodRuns(split, config, reporter, should_stop)
    data = data_fingerprint(split)
    outcomes: dict[tuple[str, Knowledge], Outcome] = {}
    missing = []
    for name, knowledge in planned(config.methods):
        own = folder / f"{name}-{knowledge}"
        _claim(own, _key(data, config, name, knowledge))
        found = _stored(own / OUTCOME)
        if found is not None:
            announce(f"{_named(name, knowledge)}: read from {own.name}")
        elif not should_stop():
            announce(f"{_named(name, knowledge)}: running")
            found = _outcome(runs, name, knowledge, own, outcomes)
        if found is None:
            missing.append(_named(name, knowledge))
            continue
        _store(own / OUTCOME, found)
        drop_weights(own)
        outcomes[name, knowledge] = found
    return summarise(runs, outcomes, missing)


def planned(methods: Sequence[str]) -> Iterator[tuple[str, Knowledge]]:
    """The runs in order: the baseline, then each method with its controls."""
    yield BASELINE, "off"
    for name in methods:
        if name != BASELINE:
            for knowledge in ("true", "shuffled", "off"):
                yield name, knowledge


def _outcome(
    runs: MethodRuns,
    name: str,
    knowledge: Knowledge,
    folder: Path,
    outcomes: Mapping[tuple[str, Knowledge], Outcome],
) -> Outcome | None:
    """Of a run; the baseline's own where a method without knowledge is the baseline."""
    baseline = outcomes.get((BASELINE, "off"))
    if name != BASELINE and knowledge == "off" and baseline and runs.is_baseline(name):
        return dataclasses.replace(baseline, method=name, is_baseline=True)
    return runs.run(name, knowledge, folder)


def summarise(
    runs: MethodRuns,
    outcomes: Mapping[tuple[str, Knowledge], Outcome],
    missing: Sequence[str] = (),
) -> MethodComparison:
    """Rows with bootstrap intervals, and paired differences of each method to its controls."""
    rows, differences = [], []
    for setting, items in runs.asked.items():
        answers = Baseline.of(runs.train, SINGLE).answers(items, SINGLE)
        frequent = _right([label for (label,) in answers], items)
        rows.append(_row(runs, setting, f"always {answers[0][0]}", None, frequent))
        right = {key: _right(o.predictions[setting], items) for key, o in outcomes.items()}
        rows += [_row(runs, setting, *key, found) for key, found in right.items()]
        for name, ours in ((n, found) for (n, k), found in right.items() if k == "true"):
            for theirs in ((BASELINE, "off"), (name, "shuffled"), (name, "off")):
                if theirs in right and not outcomes[theirs].is_baseline:
                    differences.append(_difference(runs, setting, name, theirs, ours, right))
    return MethodComparison(
        rows=tuple(rows),
        differences=tuple(differences),
        outcomes=tuple(outcomes.values()),
        missing=tuple(missing),
        stated={name: _stated(runs, runs.graphs[name][0]) for name in COMPARED},
    )


def _named(name: str, knowledge: Knowledge) -> str:
    return title(name) if name == BASELINE else f"{title(name)}, knowledge {knowledge}"


def _right(predicted: Sequence[str], items: Sequence[TaskExample]) -> NDArray[np.float64]:
    pairs = zip(predicted, items, strict=True)
    return np.array([answer == item.labels[0] for answer, item in pairs], np.float64)


def _row(
    runs: MethodRuns,
    setting: str,
    name: str,
    knowledge: Knowledge | None,
    right: NDArray[np.float64],
) -> Row:
    interval = bootstrap_interval(
        right,
        generator=generator(runs.config.seed, "bootstrap", setting),
        clusters=clusters(runs.asked[setting]),
        n_resamples=runs.config.n_resamples,
    )
    return Row(setting, name, knowledge, interval, len(right))


def _difference(
    runs: MethodRuns,
    setting: str,
    name: str,
    theirs: tuple[str, Knowledge],
    ours: NDArray[np.float64],
    right: Mapping[tuple[str, Knowledge], NDArray[np.float64]],
) -> Difference:
    groups = clusters(runs.asked[setting])
    seed, n_resamples = runs.config.seed, runs.config.n_resamples
    interval = paired_bootstrap_interval(
        ours,
        right[theirs],
        generator=generator(seed, "paired", setting),
        clusters=groups,
        n_resamples=n_resamples,
    )
    flips = generator(seed, "flips", setting)
    p = sign_flip_test(ours, right[theirs], generator=flips, clusters=groups)
    return Difference(setting, name, _named(*theirs), interval, p)


def _stated(runs: MethodRuns, graph: KnowledgeGraph) -> float:
    entities, offsets = linked_entities(runs.texts, graph)
    texts = [entities[start:stop] for start, stop in pairwise(offsets.tolist())]
    return float(np.mean([len(joined_pairs(rows, graph)) > 0 for rows in texts]))


# ---- files -------------------------------------------------------------------
def _key(data: str, config: MethodsConfig, name: str, knowledge: Knowledge) -> str:
    options = [config.of_run(name), name, knowledge, dict(objectives_of(name, knowledge))]
    return hashlib.sha256(f"{data}\n{json.dumps(options, sort_keys=True)}".encode()).hexdigest()


def _claim(folder: Path, key: str) -> None:
    """Mark a folder as this run's; raises `CheckpointError` when it is another's."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CLAIM
    if not path.exists():
        write_json(path, {"run": key}, force=True)
    elif json.loads(path.read_text(encoding="utf-8"))["run"] != key:
        raise CheckpointError(
            f"{folder} belongs to another run (other data or configuration); "
            "choose another folder or remove it"
        )


def _stored(path: Path) -> Outcome | None:
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Outcome)
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{path} is not what a run wrote ({error}); remove it") from error


def _store(path: Path, outcome: Outcome) -> None:
    if not path.exists():
        write_bytes(path, msgspec.json.format(msgspec.json.encode(outcome), indent=1))
