"""`kept compare`: every method on one task or set of questions, beside its controls, over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.apps.cli.options import LinkCase, Threads
from kept.bounds import MAX_COUNT, MAX_MINUTES
from kept.help_texts import (
    AS_PUBLISHED,
    EXPERIMENT,
    EXPERIMENT_DATA,
    EXPERIMENT_KG,
    EXPERIMENTS,
    LIMIT,
)

Task = Annotated[str, typer.Option(help=EXPERIMENT)]
Tasks = Annotated[
    Path | None,
    typer.Option(envvar="KEPT_TASKS", help=EXPERIMENTS),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, max=MAX_COUNT, help=LIMIT),
]
Data = Annotated[Path | None, typer.Option(envvar="KEPT_DATA", help=EXPERIMENT_DATA)]


def compare(
    task: Task,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the runs. Comparisons that use the same folder share their runs.",
        ),
    ] = Path("runs/compare"),
    methods: Annotated[
        str,
        typer.Option(
            help="Names of methods, separated by commas, or all of those in the experiment."
        ),
    ] = "all",
    controls: Annotated[
        str, typer.Option(help="Control conditions, separated by commas; '' for none.")
    ] = "off,shuffled",
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Number of seeds (default: that of the experiment, otherwise ten). Differences "
            "need several seeds to be tested.",
        ),
    ] = None,
    kg: Annotated[Path | None, typer.Option(help=EXPERIMENT_KG)] = None,
    case: LinkCase = None,
    data: Data = None,
    tasks: Tasks = None,
    limit: Limit = None,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help=AS_PUBLISHED,
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0, max=MAX_MINUTES, help="Stop after this many minutes. The same command continues."
        ),
    ] = None,
    threads: Threads = None,
) -> Any:
    """Run what is missing, then compare methods: scores, intervals, tests, one verdict per method.

    A run is stored under the hash of everything that it depends on, so comparisons share runs and
    none is repeated. An experiment with `questions` (such as private-questions) tests a decoder.
    For several processes: `torchrun --nproc-per-node 2 -m kept compare ...`.

    Example: kept compare --task wiki80 --methods none,ernie,kbert --controls off,shuffled --seeds 3
    """
    from functools import partial

    from kept.errors import ConfigError
    from kept.lab.comparison.find import find_experiment
    from kept.lab.questions.plan import asks_questions
    from kept.lab.study.requests import Request, remember_request

    settings: dict[str, Any] = {
        "output": output, "methods": methods, "controls": controls, "seeds": seeds, "data": data,
        "budget": budget, "threads": threads,
    }  # fmt: skip
    path = find_experiment(task, tasks)
    request = partial(
        remember_request,
        output,
        path.stem,
        Request(
            kg=None if kg is None else str(kg.resolve()),
            case=case,
            data=None if data is None else str(data.resolve()),
            limit=limit,
            as_published=as_published,
        ),
    )
    settings["remember"] = request
    if asks_questions(path):
        if case is not None:
            raise ConfigError(f"{task} is a set of questions, which bring their links; no --case")
        from kept.apps.cli.comparing import question_run

        return question_run.run(question_run.read_plan(path, kg, limit), **settings)
    from kept.apps.cli.comparing.compare_run import run
    from kept.lab.comparison.find import read_experiment

    experiment = read_experiment(
        task, kg, folder=tasks, limit=limit, case=case, as_published=as_published
    )
    return run(experiment, **settings)
