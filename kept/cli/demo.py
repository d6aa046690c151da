"""`kept demo`: from the shipped world to a trained model and an honest page."""

from __future__ import annotations

import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kept.bounds import MAX_MINUTES
from kept.cli.terminal import echo

if TYPE_CHECKING:
    from kept.cli.console import TerminalConsole
    from kept.completion.method_comparison import MethodComparison


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the run; what is done stays done.")
    ] = Path("runs/demo"),
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML instead of the shipped one.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            help="Compare these methods as well, with controls: names apart by commas, or all.",
        ),
    ] = None,
    methods_config: Annotated[
        Path | None,
        typer.Option("--methods-config", help="YAML for the methods instead of the shipped one."),
    ] = None,
    budget_minutes: Annotated[
        float | None,
        typer.Option(
            "--budget-minutes",
            min=0,
            max=MAX_MINUTES,
            help="Stop training methods after so long; the same command goes on.",
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the report.")] = False,
) -> None:
    """Run the main job on the shipped world: graph, links, CoLAKE with controls, report.

    With --methods, every method named is also pre-trained and fine-tuned on the same sentences,
    with true, shuffled and no knowledge. A run that was cut goes on where it stopped when the
    command is given again.
    """
    begun = time.monotonic()
    from transformers.utils.logging import disable_progress_bar

    from kept.cli.console import TerminalConsole
    from kept.cli.progress import TrainingProgress
    from kept.cli.training.run import refuse_foreign
    from kept.completion.method_comparison import method_names
    from kept.report.demo import demo_config, run_demo
    from kept.report.demo import methods_config as read_methods

    compared = None
    if methods is not None:
        compared = read_methods(method_names(methods), methods_config)
    elif methods_config is not None or budget_minutes is not None:
        raise typer.BadParameter("give --methods too: these options are about them")
    of_the_demo = demo_config(config)
    refuse_foreign(output, "kg")
    output.mkdir(parents=True, exist_ok=True)
    disable_progress_bar()
    console = TerminalConsole()
    with TrainingProgress(console) as reporter:
        result = run_demo(
            output,
            of_the_demo,
            announce=reporter.notice,
            reporter=reporter,
            methods=compared,
            should_stop=lambda: (
                budget_minutes is not None and time.monotonic() - begun >= budget_minutes * 60
            ),
        )
    if result.methods is not None:
        _print_methods(console, result.methods)
    echo(f"report:  {result.report}\nresults: {result.results}")
    if open_page:
        webbrowser.open(result.report.resolve().as_uri())


def _print_methods(console: TerminalConsole, comparison: MethodComparison) -> None:
    from rich.table import Table

    from kept.completion.method_tables import DIFFERENCES, SCORES, difference_cells, score_cells

    scores = score_cells(comparison.rows, comparison.outcomes)
    differences = difference_cells(comparison.differences)
    of_scores = [row.setting for row in comparison.rows]
    of_differences = [difference.setting for difference in comparison.differences]
    for columns, cells, settings in (
        (SCORES, scores, of_scores),
        (DIFFERENCES, differences, of_differences),
    ):
        table = Table("setting", *columns)
        for setting, line in zip(settings, cells, strict=True):
            table.add_row(setting, *line)
        console.print(table)
    if comparison.missing:
        console.print(f"not finished, run again to go on: {', '.join(comparison.missing)}")
