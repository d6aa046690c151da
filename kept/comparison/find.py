"""Where experiments and their data lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kept.comparison.experiment import Experiment
from kept.errors import ConfigError
from kg_loaders.spelling import did_you_mean

FOLDER = Path("experiments")


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
    names = sorted(file.stem for file in FOLDER.glob("*/*.yaml"))
    known = f"{', '.join(names) or 'none here'}{did_you_mean(task, names)}"
    several = f" {len(found)} files have that name: give the path." if found else ""
    raise ConfigError(
        f"no experiment {task!r}.{several} Give a YAML file, or one of ./{FOLDER}: {known}"
    )


def data_root(data: Path | None) -> Path:
    """Where relative paths of an experiment begin: KEPT_DATA, else the working directory."""
    root = data or Path()
    if not root.is_dir():
        raise ConfigError(f"{root} is no folder; set KEPT_DATA or --data to that of docs/data.md")
    return root.resolve()
