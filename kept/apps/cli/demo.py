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
        typer.Option("--output", "-o", help="Folder of the run; finished parts are not repeated."),
    ] = Path("runs/demo"),
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML instead of the shipped one.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            help="Compare these methods as well, with controls: comma-separated names, or all.",
        ),
    ] = None,
    methods_config: Annotated[
        Path | None,
        typer.Option("--methods-config", help="An experiment instead of the shipped `atlas`."),
    ] = None,
    budget_minutes: Annotated[
        float | None,
        typer.Option(
            "--budget-minutes",
            min=0,
            max=MAX_MINUTES,
            help="Stop training methods after this many minutes; the same command resumes.",
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the report.")] = False,
) -> None:
    """Show what knowledge decides, on two shipped worlds: training, controls, report.

    First a company of made-up people, whose graph alone knows the answer: facts true, shuffled,
    hidden; then edited, added and wrong ones, without training. Second the atlas, real facts and
    sentences that state most answers: CoLAKE with controls, triple scorers. With --methods,
    every method named is also pre-trained and fine-tuned on the atlas, with true, shuffled and no
    knowledge. The same command resumes a run that was interrupted.

    Example: kept demo --open
    """
    begun = time.monotonic()
    from transformers.utils.logging import disable_progress_bar

    from kept.apps.cli.comparing.compare_run import show
    from kept.apps.cli.console import TerminalConsole
    from kept.apps.cli.progress import TrainingProgress
    from kept.apps.cli.training.run import refuse_foreign
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
    refuse_foreign(output, "private", "kg")
    output.mkdir(parents=True, exist_ok=True)
    disable_progress_bar()
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
                budget_minutes is not None and time.monotonic() - begun >= budget_minutes * 60
            ),
        )
    for compared in result.methods:
        show(compared, console)
        if compared.missing:
            echo(f"{len(compared.missing)} runs are not finished; the same command resumes")
    echo(f"report:  {result.report}\nresults: {result.results}")
    if open_page:
        webbrowser.open(result.report.resolve().as_uri())
