"""A learning rate for each row, chosen on examples that no table reports, blind to what is true.

A trial is a run of another experiment: the same task with a share of its training set held out and
the splits of the tables left out. So trials have addresses, resume, and are shared like any runs.

    tuning/          a folder of runs beside those of the tables
    tuning/NAME.json the choice of each row with all its trials
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from kept.errors import NoControlError, NoKnowledgeError
from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.experiment import Experiment, Tuning
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.study.addresses import run_hash
from kept.lab.study.design import RunKey
from kept.lab.study.judge import Judge
from kept.lab.study.requests import REMEDY
from kept.lab.study.run import Study
from kept.lab.study.store import read_stored, update_stored
from kept.lab.study.verdicts import Compared
from kept.methods import BASELINE
from kept.training.log import Reporter
from kept.training.processes.together import join_processes, processes

FOLDER, SUFFIX = "tuning", "-tuned"


@dataclass(frozen=True)
class Choice:
    """The choice of a row: fields of `training`, and each trial with its budget and mean score."""

    training: dict[str, float]
    trials: list[dict[str, Any]]


def trial_experiment(
    experiment: Experiment, trial: Mapping[str, float], budget: float
) -> Experiment:
    """The experiment of a trial, evaluated on a share of the training set alone."""
    plan = _plan(experiment)
    dropped = {"dev", "test", "test_share", "data_seed", "dev_share"}
    task = {name: value for name, value in experiment.task.items() if name not in dropped}
    task |= {"dev_share": plan.share, "data_seed": plan.seed}
    task["training"] = _scaled_training(dict(task.get("training", {})) | dict(trial), budget)
    methods = {}
    for name, fields in experiment.methods.items():
        training = {k: v for k, v in fields.get("training", {}).items() if k not in trial}
        methods[name] = {k: v for k, v in fields.items() if k != "training"}
        if training:
            methods[name]["training"] = _scaled_training(training, budget)
    return experiment.model_copy(
        update={"task": task, "methods": methods, "asked": "dev", "tuning": None, "primary": None}
    )


def tune(
    experiment: Experiment,
    *,
    root: Path,
    folder: Path,
    methods: Sequence[str],
    controls: Sequence[Knowledge],
    announce: Callable[[str], None] = lambda _: None,
    reporter: Reporter | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, Choice] | None:
    """The choice of each row by successive halving (Jamieson and Talwalkar 2016); None on a stop.

    Every row starts with all trials and keeps the better half (rounded up) for the next budget. The
    score of a trial is the mean over the row's kinds of knowledge, one seed; `none` has as many
    seeds as the others have kinds.
    """
    plan, tuning_folder, together = _plan(experiment), folder / FOLDER, join_processes("auto")
    choices: dict[str, Choice] = {}
    for name in dict.fromkeys((BASELINE, *methods)):
        candidates, trials = plan.trials, list[dict[str, Any]]()
        for budget in plan.budgets:
            scores = []
            for trial in candidates:
                tried = trial_experiment(experiment, trial, budget)
                study = Study(ComparisonTrial(tried, root, tuning_folder, reporter, should_stop))
                announce(f"tuning {name}: {trial}, {budget:g} of the steps")
                score = _score(study, name, controls)
                if score is None:
                    return None
                scores.append(score)
                trials.append({**trial, "budget": budget, "score": score})
            order = sorted(range(len(candidates)), key=lambda i, means=scores: (-means[i], i))  # type: ignore[misc]
            candidates = [candidates[i] for i in order[: (len(candidates) + 1) // 2]]
        choices[name] = Choice(candidates[0], trials)
    tuning_folder.mkdir(parents=True, exist_ok=True)
    together.from_first(partial(_store_choices, experiment, folder, choices))
    return choices


def _store_choices(experiment: Experiment, folder: Path, choices: Mapping[str, Choice]) -> None:
    """Put `choices` into the stored ones; those of other rows, of other commands, stay."""
    update_stored(
        _path(experiment, folder), lambda: (read_choices(experiment, folder) or {}) | dict(choices)
    )


def with_chosen_rates(experiment: Experiment, choices: Mapping[str, Choice]) -> Experiment:
    """The experiment with each row at its own rate, under a name of its own."""
    methods = {
        name: dict(fields)
        | {"training": dict(fields.get("training", {})) | dict(choices[name].training)}
        for name, fields in {BASELINE: {}, **experiment.methods}.items()
        if name in choices
    }
    name = experiment.name + SUFFIX
    return experiment.model_copy(update={"name": name, "methods": methods, "tuning": None})


def with_rates(compared: Compared, common: Compared, choices: Mapping[str, Choice]) -> Compared:
    """The comparison at each row's own rate, with the scores at the common rate beside."""
    others = {(row.method, row.knowledge): row.score.estimate for row in common.rows}
    cells = []
    for row in compared.rows:
        choice, other = choices.get(row.method), others.get((row.method, row.knowledge))
        if choice is None or other is None:
            continue
        rate = ", ".join(f"{name} {value:g}" for name, value in choice.training.items())
        score = row.score.estimate
        cells.append(
            (
                compared.experiment.title(row.method),
                row.knowledge,
                rate,
                str(len(choice.trials)),
                f"{score:.3f}",
                f"{other:.3f}",
                f"{score - other:+.3f}",
            )
        )
    return dataclasses.replace(compared, rates=tuple(cells))


def read_choices(experiment: Experiment, folder: Path) -> dict[str, Choice] | None:
    """The stored choices; None where there are none yet. CheckpointError for a faulty file."""
    form = dict[str, Choice]
    return read_stored(_path(experiment, folder), form, "is no choice of rates", REMEDY)


def _score(study: Study[ComparisonTrial], name: str, controls: Sequence[Knowledge]) -> float | None:
    """The mean over kinds of knowledge, of `none` over as many seeds; None on a stop."""
    kinds: list[RunKey] = [RunKey(name, kind, 0) for kind in ("true", *controls)]
    if name == BASELINE:
        kinds = [RunKey(BASELINE, "off", seed) for seed in range(1 + len(controls))]
    judge, scores = Judge(study), []
    for key in kinds:
        try:
            record = processes().from_first(partial(study.record, key)) or study.run(key)
        except (NoControlError, NoKnowledgeError):  # reported where the table's own runs are made
            continue
        if record is None:
            return None
        scores.append(judge.score(judge.counts(record)))
    return fmean(scores) if scores else 0.0


def _scaled_training(training: dict[str, Any], budget: float) -> dict[str, Any]:
    """Steps, epochs and warm-up by `budget`; a whole number of each, at least one if there were."""
    units = (unit for unit in ("steps", "epochs", "warmup_steps") if training.get(unit))
    return training | {unit: max(1, round(training[unit] * budget)) for unit in units}


def _path(experiment: Experiment, folder: Path) -> Path:
    plan = _plan(experiment).model_dump(mode="json")
    return folder / FOLDER / f"{experiment.name}-{run_hash(plan)}.json"


def _plan(experiment: Experiment) -> Tuning:
    assert experiment.tuning is not None, "only an experiment with tuning has trials"
    return experiment.tuning
