"""What `kept compare` does: read the experiment, run what is not done, print and write tables."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import torch
from rich.table import Table
from transformers.utils.logging import disable_progress_bar

from kept.cli.console import TerminalConsole
from kept.cli.progress import TrainingProgress
from kept.cli.terminal import echo
from kept.cli.training_run import asked_to_stop
from kept.errors import ConfigError
from kept.files import write_whole
from kept.tasks.controls import Knowledge
from kept.tasks.experiment import Experiment
from kept.tasks.experiment_comparison import compare
from kept.tasks.experiment_tables import (
    SCORES,
    VERDICTS,
    score_cells,
    to_json,
    to_markdown,
    verdict_cells,
)
from kept.tasks.method_comparison import method_names

FOLDER = Path("experiments")


def run(
    task: str,
    *,
    output: Path,
    methods: str,
    controls: str,
    seeds: int,
    kg: Path | None,
    data: Path | None,
    budget: float | None,
    threads: int | None,
) -> None:
    """Compare, print, and write NAME.md and NAME.json into `output`."""
    experiment = read_experiment(task, kg)
    names, kinds = method_names(methods, tuple(experiment.methods)), control_names(controls)
    output.mkdir(parents=True, exist_ok=True)
    disable_progress_bar()
    if threads is not None:
        torch.set_num_threads(threads)
    console = TerminalConsole()
    with asked_to_stop() as stop, TrainingProgress(console) as bar:
        compared = compare(
            experiment,
            root=data_root(data),
            folder=output,
            methods=names,
            controls=kinds,
            seeds=seeds,
            announce=bar.notice,
            reporter=bar,
            should_stop=stopping(stop, budget),
        )
    command = " ".join(["kept", *sys.argv[1:]])
    if compared.rows:
        written = json.dumps(to_json(compared), indent=1, ensure_ascii=False)
        write_whole(output / f"{experiment.name}.json", written + "\n")
        write_whole(output / f"{experiment.name}.md", to_markdown(compared, command))
        for columns, cells in (
            (SCORES, score_cells(compared)),
            (VERDICTS, verdict_cells(compared)),
        ):
            table = Table(*columns)
            for line in cells:
                table.add_row(*line)
            console.print(table)
        echo(f"tables in {output / experiment.name}.md, values in .json beside it")
    for name, why in compared.left_out.items():
        echo(f"left out: {name}: {why}")
    if compared.missing:
        echo(f"{len(compared.missing)} runs are not finished; the same command goes on")


def stopping(stop: Sequence[object], budget: float | None) -> Callable[[], bool]:
    """Whether Ctrl-C was pressed or `budget` minutes are over."""
    begun = time.monotonic()
    return lambda: bool(stop) or (budget is not None and time.monotonic() - begun >= budget * 60)


def read_experiment(task: str, kg: Path | None) -> Experiment:
    """The experiment of a name or a file, over the user's graph if there is one."""
    own = {} if kg is None else {"task.kg": str(kg.resolve())}
    return Experiment.read(find_experiment(task), own)


def find_experiment(task: str) -> Path:
    """The file of an experiment: a path, or a name under ./experiments."""
    path = Path(task)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    found = sorted(FOLDER.glob(f"*/{task}.yaml"))
    if len(found) == 1:
        return found[0]
    known = ", ".join(sorted(file.stem for file in FOLDER.glob("*/*.yaml"))) or "none here"
    several = f" {len(found)} files have that name: give the path." if found else ""
    raise ConfigError(
        f"no experiment {task!r}.{several} Give a YAML file, or one of ./{FOLDER}: {known}"
    )


def control_names(text: str) -> tuple[Knowledge, ...]:
    """Kinds of knowledge apart by commas; ConfigError for one that is none."""
    kinds: tuple[Knowledge, ...] = get_args(Knowledge)
    found = []
    for name in dict.fromkeys(part.strip() for part in text.split(",") if part.strip()):
        match = next((kind for kind in kinds if kind == name and kind != "true"), None)
        if match is None:
            raise ConfigError(f"there is no control {name!r}; there are {list(kinds[1:])}")
        found.append(match)
    return tuple(found)


def data_root(data: Path | None) -> Path:
    """Where relative paths of an experiment begin: KEPT_DATA, else the working directory."""
    root = data or Path()
    if not root.is_dir():
        raise ConfigError(f"{root} is no folder; set KEPT_DATA or --data to that of docs/data.md")
    return root.resolve()
