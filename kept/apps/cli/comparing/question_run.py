"""What `kept compare` and `kept report` do with a file of questions."""

from __future__ import annotations

from pathlib import Path

from kept.apps.cli.comparing.compare_run import control_names, print_table, running
from kept.apps.cli.comparing.options import CompareOptions
from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.terminal import command_line, echo
from kept.errors import ConfigError
from kept.lab.comparison.files import data_root
from kept.lab.comparison.find import ALL
from kept.lab.questions.pages.compared import QuestionTables, tables
from kept.lab.questions.pages.page import (
    answer_table,
    to_json,
    to_markdown,
    verdict_table,
    write_page,
)
from kept.lab.questions.plan import QuestionPlan
from kept.lab.questions.trial import QuestionTrial
from kept.lab.report.page import is_kept_page
from kept.lab.study.run import Study, run_missing, stored_outcome
from kept.lab.study.verdicts import headline
from kept.methods import BASELINE
from kept.results import Result
from kept.training.processes.launch import rank_and_size
from kg_loaders.disk.writing import write_json, write_text


def read_plan(path: Path, kg: Path | None, limit: int | None) -> QuestionPlan:
    """The plan of a file, over the user's graph if there is one, in small if there is a limit."""
    plan = QuestionPlan.read(path)
    plan = plan if kg is None else plan.over(kg)
    return plan if limit is None else plan.limited(limit)


def run(plan: QuestionPlan, options: CompareOptions, task: str) -> Result:
    """Ask what is missing, print, and write NAME.md and NAME.json into the folder of runs.

    `task` as in `compare_run.run`.
    """
    names, kinds = row_names(options.methods, plan), control_names(options.controls)
    output = options.output
    with running(options, "cpu", task) as (bar, should_stop):
        trial = QuestionTrial(plan, data_root(options.data), output, bar, should_stop)
        outcome = run_missing(
            Study(trial),
            methods=names,
            controls=kinds,
            seeds=plan.seeds if options.seeds is None else options.seeds,
            announce=bar.notice,
            should_stop=should_stop,
        )
        result = tables(trial, outcome) if outcome.done and not rank_and_size().rank else None
    if result is not None:
        write_json(output / f"{plan.name}.json", to_json(result), force=True)
        write_text(output / f"{plan.name}.md", to_markdown(result, command_line()), force=True)
        _show(result, TerminalConsole())
        echo(f"tables in {output / plan.name}.md, values in the .json file next to it")
        for name, why in result.primary.left_out.items():
            echo(f"left out: {name}: {why}")
    if outcome.missing:
        echo(f"{len(outcome.missing)} runs are not finished; the same command resumes")
    if result is None:
        return Result(values={"missing": list(outcome.missing)}, folder=output)
    rows = answer_table(result, result.primary.experiment.metric).dicts()
    return Result(values=to_json(result), rows=rows, folder=output)


def report(
    plan: QuestionPlan, *, folder: Path, output: Path | None, data: Path | None, force: bool
) -> Path:
    """Write the page of finished runs; where it is."""
    trial = QuestionTrial(plan, data_root(data), folder)
    path = output or folder / f"{plan.name}.html"
    result = tables(trial, stored_outcome(Study(trial)))
    for written in write_page(result, path, force=force or is_kept_page(path)):
        echo(str(written))
    return path


def row_names(text: str, plan: QuestionPlan) -> tuple[str, ...]:
    """The rows in a comma-separated text, or all; ConfigError for one that is not in the file."""
    if text.strip() == ALL:
        return tuple(plan.methods)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(f"give comma-separated rows of the file, or {ALL}: {list(plan.methods)}")
    for name in names:
        plan.kind_of(name)
    return tuple(name for name in names if name != BASELINE)


def _show(result: QuestionTables, console: TerminalConsole) -> None:
    """Print both tables of answers, the verdicts and the conclusion."""
    compared = result.primary
    metric = compared.experiment.metric
    for name in result.measures:
        print_table(console, name, answer_table(result, name))
    print_table(console, f"{metric}: verdicts", verdict_table(result))
    echo(f"{metric}: {headline(compared)}")
