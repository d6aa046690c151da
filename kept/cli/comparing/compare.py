"""`kept compare`: every method on one task, beside its controls, over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kept.bounds import MAX_COUNT, MAX_MINUTES
from kept.cli.options import Threads

Task = Annotated[
    str, typer.Option(help="An experiment: a YAML file, or a name: of --tasks, or that ships.")
]
Tasks = Annotated[
    Path | None,
    typer.Option(envvar="KEPT_TASKS", help="Folder of your own experiments; ./experiments else."),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, max=MAX_COUNT, help="At most so many examples of each set, to try it out."),
]
Data = Annotated[
    Path | None, typer.Option(envvar="KEPT_DATA", help="Where the experiment's files lie.")
]


def compare(
    task: Task,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the runs; shared by comparisons.")
    ] = Path("runs/compare"),
    methods: Annotated[
        str, typer.Option(help="Names apart by commas, or all that the file gives.")
    ] = "all",
    controls: Annotated[
        str, typer.Option(help="Kinds of knowledge to stand beside the true one; '' for none.")
    ] = "off,shuffled",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Seeds of the task, 0 and up; the file's, or ten."),
    ] = None,
    kg: Annotated[
        Path | None, typer.Option(help="Your graph, in the place of the experiment's.")
    ] = None,
    data: Data = None,
    tasks: Tasks = None,
    limit: Limit = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0, max=MAX_MINUTES, help="Stop after so many minutes; the same command goes on."
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Run what is not done yet, then compare: scores, intervals, tests, a verdict a method.

    Runs are addressed by the hash of everything that they depend on, so a run that another
    comparison did is not repeated.
    """
    from kept.cli.comparing.compare_run import run
    from kept.comparison.find import read_experiment

    run(
        read_experiment(task, kg, folder=tasks, limit=limit),
        output=output,
        methods=methods,
        controls=controls,
        seeds=seeds,
        data=data,
        budget=budget,
        threads=threads,
    )
