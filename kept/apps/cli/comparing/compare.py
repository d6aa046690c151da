"""`kept compare`: every method on one task or set of questions, beside its controls, over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kept.apps.cli.options import LinkCase, Threads
from kept.bounds import MAX_COUNT, MAX_MINUTES

Task = Annotated[
    str, typer.Option(help="An experiment: a YAML file, or a name in --tasks or shipped.")
]
Tasks = Annotated[
    Path | None,
    typer.Option(
        envvar="KEPT_TASKS", help="Folder of your own experiments (default: ./experiments)."
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, max=MAX_COUNT, help="Maximum number of examples per set, to try it out."),
]
Data = Annotated[
    Path | None, typer.Option(envvar="KEPT_DATA", help="Folder of the experiment's files.")
]


def compare(
    task: Task,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the runs; shared by comparisons.")
    ] = Path("runs/compare"),
    methods: Annotated[
        str, typer.Option(help="Comma-separated names, or all of the file.")
    ] = "all",
    controls: Annotated[
        str, typer.Option(help="Control conditions, comma-separated; '' for none.")
    ] = "off,shuffled",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Number of seeds (default: the file's, or ten)."),
    ] = None,
    kg: Annotated[Path | None, typer.Option(help="Your graph instead of the experiment's.")] = None,
    case: LinkCase = None,
    data: Data = None,
    tasks: Tasks = None,
    limit: Limit = None,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help="Rows have their papers' settings, as those of tasks that come with kept, not the "
            "recipes with which methods read facts.",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0, max=MAX_MINUTES, help="Stop after this many minutes; the same command resumes."
        ),
    ] = None,
    threads: Threads = None,
) -> Any:
    """Run what is missing, then compare: scores, intervals, tests, one verdict per method.

    A run's address is the hash of everything that it depends on: comparisons share runs, and none
    is repeated. A file with `questions` (such as private-questions) is put to a decoder. Several
    processes: `torchrun --nproc-per-node 2 -m kept compare ...`.

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
