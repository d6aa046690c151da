"""`kept demo`: from the shipped world to a trained model and an honest page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the run; what is done stays done.")
    ] = Path("runs/demo"),
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML instead of the shipped one.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the report.")] = False,
) -> None:
    """Run the main job on the shipped world: graph, links, CoLAKE with controls, report.

    A run that was cut goes on where it stopped when the command is given again.
    """
    from rich.console import Console
    from transformers.utils.logging import disable_progress_bar

    from kept.cli.progress import TrainingProgress
    from kept.demo import demo_config, run_demo

    output.mkdir(parents=True, exist_ok=True)
    disable_progress_bar()
    with TrainingProgress(Console()) as reporter:
        result = run_demo(output, demo_config(config), announce=reporter.notice, reporter=reporter)
    typer.echo(f"report:  {result.report}\nresults: {result.results}")
    if open_page:
        webbrowser.open(result.report.resolve().as_uri())
