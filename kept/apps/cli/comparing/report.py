"""`kept report`: a comparison as one offline page."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.comparing.compare import Data, Limit, Task, Tasks
from kept.apps.cli.terminal import echo
from kept.help_texts import EXPERIMENT_KG


def report(
    runs: Annotated[Path, typer.Argument(help="Folder of runs, as `kept compare` writes it.")],
    task: Task,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Page to write (default: RUNS/TASK.html).")
    ] = None,
    kg: Annotated[Path | None, typer.Option(help=EXPERIMENT_KG)] = None,
    data: Data = None,
    tasks: Tasks = None,
    limit: Limit = None,
    latex: Annotated[
        Path | None,
        typer.Option(
            help="File (.tex) for scores, differences and verdicts as LaTeX tables (booktabs)."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files even if kept did not write them.")
    ] = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in the browser.")
    ] = False,
) -> None:
    """Write a page with tables, curves and changed examples with their graphs, and CSV files.

    It reads finished runs and starts none. Options that you leave out are those of the last
    `kept compare` in this folder. A page that kept wrote before is replaced.

    Example: kept report runs/compare --task wiki80 --open
    """
    from kept.errors import ConfigError
    from kept.lab.comparison.find import data_root, find_experiment, read_experiment
    from kept.lab.comparison.report import write_report
    from kept.lab.comparison.trial import ComparisonTrial
    from kept.lab.comparison.tuning import SUFFIX, read_choices, with_chosen_rates, with_rates
    from kept.lab.questions.plan import asks_questions
    from kept.lab.report.page import is_kept_page
    from kept.lab.study.comparison_tables import latex_tables
    from kept.lab.study.effects import finished
    from kept.lab.study.requests import read_request
    from kept.lab.study.run import Study
    from kept.lab.study.tables import is_kept_latex
    from kg_loaders.disk.writing import refuse_file, write_text

    if latex is not None:
        if latex.suffix != ".tex":
            raise ConfigError(f"{latex}: choose a name in .tex")
        refuse_file(latex, force=force or is_kept_latex(latex))
    location = find_experiment(task, tasks)
    before = read_request(runs, location.stem)
    if before.data is not None and data is not None and str(data) == os.environ.get("KEPT_DATA"):
        data = None  # the variable says where data is in general, the comparison where its own is
    if str(before) and (kg, data, limit) == (None, None, None):
        echo(f"as in the last kept compare here: {before}")
    kg = kg or (None if before.kg is None else Path(before.kg))
    data = data or (None if before.data is None else Path(before.data))
    limit = limit or before.limit
    if asks_questions(location):
        from kept.apps.cli.comparing import question_run

        plan = question_run.read_plan(location, kg, limit)
        if latex is not None:
            raise ConfigError("--latex: a page of questions has none; its tables are CSV files")
        path = question_run.report(plan, folder=runs, output=output, data=data, force=force)
        if open_page:
            webbrowser.open(path.resolve().as_uri())
        return
    experiment = read_experiment(
        task, kg, folder=tasks, limit=limit, case=before.case, as_published=before.as_published
    )
    study = Study(ComparisonTrial(experiment, data_root(data), runs))
    path = output or runs / f"{experiment.name}.html"
    common = finished(study)
    for written in write_report(common, study, path, force=force or is_kept_page(path)):
        echo(str(written))
    if latex is not None:
        write_text(latex, latex_tables(common), force=True)
        echo(str(latex))
    choices = None if experiment.tuning is None else read_choices(experiment, runs)
    if choices is not None:
        tuned = with_chosen_rates(experiment, choices)
        with_chosen = Study(ComparisonTrial(tuned, data_root(data), runs))
        results = with_rates(finished(with_chosen), common, choices)
        page = path.with_stem(f"{path.stem}{SUFFIX}")
        for written in write_report(results, with_chosen, page, force=force or is_kept_page(page)):
            echo(str(written))
    if open_page:
        webbrowser.open(path.resolve().as_uri())
