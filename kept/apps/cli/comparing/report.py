"""`kept report`: a comparison as one offline page."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from kept.apps.cli.declared import Declared
from kept.apps.cli.terminal import echo

if TYPE_CHECKING:
    from kept.apps.cli.comparing.options import ReportOptions


def report(options: ReportOptions) -> None:
    """Write a page with tables, curves and changed examples with their graphs, and CSV files.

    It reads finished runs and starts none. Options that you leave out are those of the last
    `kept compare` in this folder. A page that kept wrote before is replaced.

    Example: kept report runs/compare --task wiki80 --open
    """
    from kept.errors import ConfigError
    from kept.lab.comparison.files import asks_questions, data_root, find_experiment
    from kept.lab.comparison.find import read_experiment
    from kept.lab.comparison.report import write_report
    from kept.lab.comparison.trial import ComparisonTrial
    from kept.lab.comparison.tuning import SUFFIX, read_choices, with_chosen_rates, with_rates
    from kept.lab.report.page import is_kept_page
    from kept.lab.study.comparison_tables import latex_tables
    from kept.lab.study.effects import finished
    from kept.lab.study.requests import read_request
    from kept.lab.study.run import Study
    from kept.lab.study.tables import is_kept_latex
    from kg_loaders.disk.writing import refuse_file, write_text

    latex, force, runs = options.latex, options.force, options.runs
    if latex is not None:
        if latex.suffix != ".tex":
            raise ConfigError(f"{latex}: choose a name in .tex")
        refuse_file(latex, force=force or is_kept_latex(latex))
    location = find_experiment(options.task, options.tasks)
    before = read_request(runs, location.stem)
    kg, data, limit = options.kg, options.data, options.limit
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
        path = question_run.report(plan, folder=runs, output=options.output, data=data, force=force)
        if options.open_page:
            webbrowser.open(path.resolve().as_uri())
        return
    experiment = read_experiment(
        options.task,
        kg,
        folder=options.tasks,
        limit=limit,
        case=before.case,
        as_published=before.as_published,
    )
    study = Study(ComparisonTrial(experiment, data_root(data), runs))
    path = options.output or runs / f"{experiment.name}.html"
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
    if options.open_page:
        webbrowser.open(path.resolve().as_uri())


report_command = Declared(
    "kept.apps.cli.comparing.options:ReportOptions", report, arguments=["runs"]
)
