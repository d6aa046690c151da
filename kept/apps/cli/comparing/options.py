"""Options of `kept compare` and `kept report`, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from kept import help_texts
from kept.bounds import MAX_COUNT, MAX_MINUTES, MAX_THREADS
from kept.training.config import RunConfig
from kept.training.options import option


def experiments() -> Any:
    """Return the option of the folder of a user's experiments."""
    return option(help_texts.EXPERIMENTS, envvar="KEPT_TASKS")


def experiment_data() -> Any:
    """Return the option of the folder with an experiment's files."""
    return option(help_texts.EXPERIMENT_DATA, envvar="KEPT_DATA")


class CompareOptions(RunConfig):
    """What `kept compare` is given; a field is an option, its description the help."""

    task: str = Field(description=help_texts.EXPERIMENT)
    output: Path = option(
        "Folder of the runs. Comparisons that use the same folder share their runs.",
        default=Path("runs/compare"),
        short="-o",
    )
    methods: str = option(
        "Names of methods, separated by commas, or all of those in the experiment.", default="all"
    )
    controls: str = option(
        "Control conditions, separated by commas; '' for none.", default="off,shuffled"
    )
    seeds: int | None = option(
        "Number of seeds (default: that of the experiment, otherwise ten). Differences "
        "need several seeds to be tested.",
        bounds=(1, 1000),
    )
    kg: Path | None = option(help_texts.EXPERIMENT_KG)
    case: str | None = option(help_texts.CASE, check="case")
    data: Path | None = experiment_data()
    tasks: Path | None = experiments()
    limit: int | None = option(help_texts.LIMIT, bounds=(1, MAX_COUNT))
    as_published: bool = option(help_texts.AS_PUBLISHED, default=False)
    budget: float | None = option(
        "Stop after this many minutes. The same command continues.", bounds=(0, MAX_MINUTES)
    )
    threads: int | None = option(help_texts.THREADS, bounds=(1, MAX_THREADS))


class ReportOptions(RunConfig):
    """What `kept report` is given."""

    runs: Path = Field(description="Folder of runs, as `kept compare` writes it.")
    task: str = Field(description=help_texts.EXPERIMENT)
    output: Path | None = option("Page to write (default: RUNS/TASK.html).", short="-o")
    kg: Path | None = option(help_texts.EXPERIMENT_KG)
    data: Path | None = experiment_data()
    tasks: Path | None = experiments()
    limit: int | None = option(help_texts.LIMIT, bounds=(1, MAX_COUNT))
    latex: Path | None = option(
        "File (.tex) for scores, differences and verdicts as LaTeX tables (booktabs)."
    )
    force: bool = option("Replace files even if kept did not write them.", default=False)
    open_page: bool = option("Open the page in the browser.", default=False, flag="--open")
