"""What `kept compare` does: read the experiment, run what is missing, print and write tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from rich.table import Table as RichTable

from kept.apps.cli.comparing.options import CompareOptions
from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.progress import TrainingProgress
from kept.apps.cli.terminal import command_line, echo
from kept.apps.cli.training.run import catch_interrupt, require_run_folder
from kept.inputs.controls.conditions import Knowledge
from kept.lab.comparison.compare import compare
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import data_root
from kept.lab.comparison.find import method_names, stopping
from kept.lab.comparison.trial import ComparisonTrial
from kept.lab.comparison.tuning import tune, with_chosen_rates, with_rates
from kept.lab.study.comparison_tables import score_table, to_json, to_markdown, verdict_table
from kept.lab.study.requests import REQUEST, REQUESTED, Request, remember_request
from kept.lab.study.store import RECORDS
from kept.lab.study.tables import Table
from kept.lab.study.verdicts import Compared, headline
from kept.results import Result
from kept.suggestions import no_such
from kept.training.processes.launch import rank_and_size
from kept.training.processes.together import join_processes, leave_processes, report_dead_process
from kg_loaders.disk.writing import write_json, write_text


def run(experiment: Experiment, options: CompareOptions, task: str) -> Result:
    """Compare, print, return, and write NAME.md and NAME.json into the folder of runs.

    `task` is the name of the file of the experiment, for `kept report`.
    """
    names = method_names(options.methods, tuple(experiment.methods))
    kinds, output = control_names(options.controls), options.output
    device = ComparisonTrial(experiment, Path(), output).device
    with running(options, device, task) as (bar, should_stop):
        overrides: dict[str, Any] = {
            "root": data_root(options.data), "folder": output, "methods": names,
            "controls": kinds, "announce": bar.notice, "reporter": bar, "should_stop": should_stop,
        }  # fmt: skip
        n_seeds = experiment.seeds if options.seeds is None else options.seeds
        choices = None if experiment.tuning is None else tune(experiment, **overrides)
        compared = compare(experiment, seeds=n_seeds, **overrides)
        pages = [compared]
        if choices is not None:
            chosen = compare(with_chosen_rates(experiment, choices), seeds=n_seeds, **overrides)
            pages.append(with_rates(chosen, compared, choices))
    last = pages[-1]
    result = Result(values=to_json(last), rows=score_table(last).dicts(), folder=output)
    if rank_and_size().rank:
        return result
    for each in pages:
        _write(each, output)
    if experiment.tuning is not None and choices is None:
        echo("learning rates are not chosen yet; the same command resumes")
    return result


def control_names(text: str) -> tuple[Knowledge, ...]:
    """The control conditions in a comma-separated text; ConfigError for an unknown one."""
    kinds: tuple[Knowledge, ...] = get_args(Knowledge)
    controls = []
    for name in dict.fromkeys(part.strip() for part in text.split(",") if part.strip()):
        match = next((kind for kind in kinds if kind == name and kind != "true"), None)
        if match is None:
            raise no_such("control", name, kinds[1:])
        controls.append(match)
    return tuple(controls)


@contextmanager
def running(
    options: CompareOptions, device: str, task: str
) -> Iterator[tuple[TrainingProgress, Callable[[], bool]]]:
    """Yield the progress of runs to report to, and whether to stop them.

    Several processes that a launcher has started meet here, over what `device` needs, and part.
    """

    def prepare() -> None:
        require_run_folder(options.output, REQUESTED, RECORDS, REQUEST)
        options.output.mkdir(parents=True, exist_ok=True)
        remember_request(options.output, task, _request(options))

    try:
        with report_dead_process():
            join_processes(device).from_first(prepare)
            if options.threads is not None:
                torch.set_num_threads(options.threads)
            with catch_interrupt() as stop, TrainingProgress(TerminalConsole()) as bar:
                yield bar, stopping(stop, options.budget)
    finally:
        leave_processes()


def _request(options: CompareOptions) -> Request:
    """What `kept report` reads the experiment with."""
    return Request(
        kg=None if options.kg is None else str(options.kg.resolve()),
        case=options.case,
        data=None if options.data is None else str(options.data.resolve()),
        limit=options.limit,
        as_published=options.as_published,
    )


def _write(compared: Compared, output: Path) -> None:
    """Write the tables and values of one comparison, and print its summary."""
    name, command = compared.experiment.name, command_line()
    if compared.rows:
        write_json(output / f"{name}.json", to_json(compared), force=True)
        write_text(output / f"{name}.md", to_markdown(compared, command), force=True)
        show(compared, TerminalConsole())
        echo(f"tables in {output / name}.md, values in the .json file next to it")
    for caution in (*compared.cautions, *compared.shortfalls):
        echo(f"warning: {caution}")
    for name, why in compared.left_out.items():
        echo(f"left out: {name}: {why}")
    if compared.missing:
        echo(f"{len(compared.missing)} runs are not finished; the same command resumes")


def show(compared: Compared, console: TerminalConsole) -> None:
    """Print scores, verdicts and the conclusion."""
    plan = compared.experiment
    title = f"{plan.name}: {plan.metric} on {plan.asked}"
    for table in (score_table(compared), verdict_table(compared)):
        print_table(console, title, table)
    echo(headline(compared))


def print_table(console: TerminalConsole, title: str, table: Table) -> None:
    """Print a table under another title."""
    printed = RichTable(*table.columns, title=title)
    for cells in table.rows:
        printed.add_row(*map(str, cells))
    console.print(printed)
