"""`kept demo`: two shipped worlds, trained models and an honest page."""

from __future__ import annotations

import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path

import typer

from kept.apps.cli.declared import option, switch, takes
from kept.apps.cli.terminal import echo
from kept.bounds import MAX_MINUTES


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What the command is given; a field is an option."""

    output: Path = option(
        "Folder of the run. Parts that are finished there are not repeated.",
        "--output",
        "-o",
        default=Path("runs/demo"),
    )
    config: Path | None = option(
        "YAML file with the settings of the demo (default: the one that comes with kept).",
        "--config",
        "-c",
    )
    methods: str | None = option(
        "Also compare these methods with controls: names separated by commas, or all.",
        "--methods",
        "-m",
    )
    methods_config: Path | None = option(
        "Experiment in which the methods are compared (default: `atlas`, which comes with kept)."
    )
    budget_minutes: float | None = option(
        "Stop training methods after this many minutes. The same command continues.",
        bounds=(0, MAX_MINUTES),
    )
    open_page: bool = switch("Open the report in the browser.", "--open")


@takes(DemoOptions)
def demo(options: DemoOptions) -> None:
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
    from kept.lab.comparison.experiment import Experiment
    from kept.lab.comparison.files import shipped_experiments
    from kept.lab.comparison.find import method_names
    from kept.lab.demo.run import demo_config, run_demo
    from kept.plotting import require_plotting

    experiment, names = None, tuple[str, ...]()
    if options.methods is not None:
        experiment = Experiment.read(options.methods_config or shipped_experiments()["atlas"])
        names = method_names(options.methods, tuple(experiment.methods))
    elif options.methods_config is not None or options.budget_minutes is not None:
        raise typer.BadParameter("give --methods too: these options are about them")
    require_plotting()
    of_the_demo = demo_config(options.config)
    require_run_folder(options.output, "private", "kg")
    options.output.mkdir(parents=True, exist_ok=True)
    console = TerminalConsole()
    with TrainingProgress(console) as reporter:
        result = run_demo(
            options.output,
            of_the_demo,
            announce=reporter.notice,
            reporter=reporter,
            experiment=experiment,
            methods=names,
            should_stop=lambda: (
                options.budget_minutes is not None
                and time.monotonic() - start >= options.budget_minutes * 60
            ),
        )
    for compared in result.methods:
        show(compared, console)
        if compared.missing:
            echo(f"{len(compared.missing)} runs are not finished; the same command resumes")
    echo(f"report:  {result.report}\nresults: {result.results}")
    if options.open_page:
        webbrowser.open(result.report.resolve().as_uri())
