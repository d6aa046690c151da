"""Options of `kept compare` and `kept report`, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from kept.bounds import MAX_COUNT, MAX_MINUTES, MAX_THREADS
from kept.help_texts import (
    AS_PUBLISHED,
    CASE,
    EXPERIMENT,
    EXPERIMENT_DATA,
    EXPERIMENT_KG,
    EXPERIMENTS,
    LIMIT,
    THREADS,
)
from kept.training.config import RunConfig
from kept.training.options import option


def experiments() -> Any:
    """Return the option of the folder of a user's experiments."""
    return option(EXPERIMENTS, envvar="KEPT_TASKS")


def experiment_data() -> Any:
    """Return the option of the folder with an experiment's files."""
    return option(EXPERIMENT_DATA, envvar="KEPT_DATA")


class CompareOptions(RunConfig):
    """What `kept compare` is given; a field is an option, its description the help."""

    task: str = Field(description=EXPERIMENT)
    output: Path = option(
        "Folder of the runs. Comparisons that use the same folder share their runs.",
        default=Path("runs/compare"),
        short="-o",
    )
    methods: str = Field(
        "all",
        description="Names of methods, separated by commas, or all of those in the experiment.",
    )
    controls: str = Field(
        "off,shuffled", description="Control conditions, separated by commas; '' for none."
    )
    seeds: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Number of seeds (default: that of the experiment, otherwise ten). Differences "
        "need several seeds to be tested.",
    )
    kg: Path | None = Field(None, description=EXPERIMENT_KG)
    case: str | None = option(CASE, check="case")
    data: Path | None = experiment_data()
    tasks: Path | None = experiments()
    limit: int | None = option(LIMIT, ge=1, le=MAX_COUNT)
    as_published: bool = Field(False, description=AS_PUBLISHED)
    budget: float | None = option(
        "Stop after this many minutes. The same command continues.", ge=0, le=MAX_MINUTES
    )
    threads: int | None = option(THREADS, ge=1, le=MAX_THREADS)


class ReportOptions(RunConfig):
    """What `kept report` is given."""

    runs: Path = Field(description="Folder of runs, as `kept compare` writes it.")
    task: str = Field(description=EXPERIMENT)
    output: Path | None = option("Page to write (default: RUNS/TASK.html).", short="-o")
    kg: Path | None = Field(None, description=EXPERIMENT_KG)
    data: Path | None = experiment_data()
    tasks: Path | None = experiments()
    limit: int | None = option(LIMIT, ge=1, le=MAX_COUNT)
    latex: Path | None = Field(
        None,
        description="File (.tex) for scores, differences and verdicts as LaTeX tables (booktabs).",
    )
    force: bool = Field(False, description="Replace files even if kept did not write them.")
    open_page: bool = option("Open the page in the browser.", default=False, flag="--open")
