"""`kept compare`: methods on a task or on questions, each with its controls, over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kept.apps.cli.declared import Declared
from kept.apps.cli.options import require_graph, require_names

if TYPE_CHECKING:
    from kept.apps.cli.comparing.options import CompareOptions


def compare(options: CompareOptions) -> Any:
    """Run what is missing, then compare methods: scores, intervals, tests, one verdict per method.

    A run is stored under the hash of everything that it depends on, so comparisons share runs and
    none is repeated. An experiment with `questions` (such as private-questions) tests a decoder.
    For several processes: `torchrun --nproc-per-node 2 -m kept compare ...`.

    Example: kept compare --task wiki80 --methods none,ernie,kbert --controls off,shuffled --seeds 3
    """
    from kept.errors import ConfigError
    from kept.lab.comparison.files import asks_questions, find_experiment

    path = find_experiment(options.task, options.tasks)
    _require_known(options, path)
    if asks_questions(path):
        if options.case is not None:
            raise ConfigError(
                f"{options.task} is a set of questions, which bring their links; no --case"
            )
        from kept.apps.cli.comparing import question_run

        plan = question_run.read_plan(path, options.kg, options.limit)
        return question_run.run(plan, options, path.stem)
    from kept.apps.cli.comparing.compare_run import run
    from kept.lab.comparison.find import read_experiment

    experiment = read_experiment(
        options.task,
        options.kg,
        folder=options.tasks,
        limit=options.limit,
        case=options.case,
        as_published=options.as_published,
    )
    return run(experiment, options, path.stem)


def _require_known(options: CompareOptions, path: Path) -> None:
    """Raise for a method, a control, a graph or a data file that is not there; loads no torch."""
    from kept.lab.comparison.files import (
        QUESTIONS,
        data_root,
        fields_of_experiment,
        files_of_task,
        require_links,
    )

    fields = fields_of_experiment(path)
    require_names(
        "control", options.controls, "kept.inputs.controls.conditions:Knowledge", never="true"
    )
    require_graph(options.kg)
    root = data_root(options.data)
    rows, task = fields.get("methods"), fields.get("task")
    if QUESTIONS in fields or not isinstance(task, Mapping):
        return
    require_names(
        "method",
        options.methods,
        "kept.methods:METHODS",
        rows if isinstance(rows, Mapping) else (),
        every="all",
    )
    if options.case is not None:
        require_links(options.task, task)
    files_of_task(task, root)


compare_command = Declared("kept.apps.cli.comparing.options:CompareOptions", compare)
