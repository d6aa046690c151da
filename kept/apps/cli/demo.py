"""`kept demo`: two shipped worlds, trained models and an honest page."""

from __future__ import annotations

import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from kept.apps.cli.terminal import echo
from kept.bounds import MAX_MINUTES


def demo(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the run. Parts that are finished there are not repeated.",
        ),
    ] = Path("runs/demo"),
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="YAML file with the settings of the demo (default: the one that comes with kept).",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            help="Also compare these methods with controls: names separated by commas, or all.",
        ),
    ] = None,
    methods_config: Annotated[
        Path | None,
        typer.Option(
            "--methods-config",
            help="Experiment in which the methods are compared (default: `atlas`, which comes "
            "with kept).",
        ),
    ] = None,
    budget_minutes: Annotated[
        float | None,
        typer.Option(
            "--budget-minutes",
            min=0,
            max=MAX_MINUTES,
            help="Stop training methods after this many minutes. The same command continues.",
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the report in the browser.")
    ] = False,
) -> None:
    """Show what a knowledge graph changes, on two data sets that come with kept.

    The first is a company of made-up people, whose graph alone has the answers. A model is trained
    on it and tested with true, shuffled and hidden facts, and then with edited, added and wrong
    ones, without further training. The second is the atlas: real facts, and sentences that state
    most of the answers; CoLAKE with controls, and triple scorers. --methods also pre-trains and
    fine-tunes every method that you name on the atlas, with true, shuffled and no facts. The same
    command continues a run that was interrupted.

    Example: kept demo --open
    """
    start = time.monotonic()

    from kept.apps.cli.comparing.compare_run import show
    from kept.apps.cli.console import TerminalConsole
    from kept.apps.cli.progress import TrainingProgress
    from kept.apps.cli.training.run import require_run_folder
    from kept.lab.comparison.experiment import Experiment, shipped_experiments
    from kept.lab.comparison.find import method_names
    from kept.lab.demo.run import demo_config, run_demo
    from kept.plotting import require_plotting

    experiment, names = None, tuple[str, ...]()
    if methods is not None:
        experiment = Experiment.read(methods_config or shipped_experiments()["atlas"])
        names = method_names(methods, tuple(experiment.methods))
    elif methods_config is not None or budget_minutes is not None:
        raise typer.BadParameter("give --methods too: these options are about them")
    require_plotting()
    of_the_demo = demo_config(config)
    require_run_folder(output, "private", "kg")
    output.mkdir(parents=True, exist_ok=True)
    console = TerminalConsole()
    with TrainingProgress(console) as reporter:
        result = run_demo(
            output,
            of_the_demo,
            announce=reporter.notice,
            reporter=reporter,
            experiment=experiment,
            methods=names,
            should_stop=lambda: (
                budget_minutes is not None and time.monotonic() - start >= budget_minutes * 60
            ),
        )
    for compared in result.methods:
        show(compared, console)
        if compared.missing:
            echo(f"{len(compared.missing)} runs are not finished; the same command resumes")
    echo(f"report:  {result.report}\nresults: {result.results}")
    if open_page:
        webbrowser.open(result.report.resolve().as_uri())
