"""`kept compare`: each method with its controls over seeds, with intervals, tests and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.comparison.work import work_of_runs
from kept.lab.study.effects import summarise
from kept.lab.study.forecast import RunForecast
from kept.lab.study.run import Study, run_missing
from kept.lab.study.verdicts import Compared
from kept.training.log import Reporter


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
    every one does. See `kept.lab.study.run.run_all`.
    """
    forecast = RunForecast(reporter, announce)
    study = Study(ComparisonTrial(experiment, root, folder, forecast, should_stop))
    outcome = run_missing(
        study, methods=methods, controls=controls, seeds=seeds, announce=announce,
        should_stop=should_stop, forecast=forecast, work=partial(work_of_runs, study),
    )  # fmt: skip
    return summarise(study, outcome)
