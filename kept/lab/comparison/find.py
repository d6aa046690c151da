"""What a command names: an experiment as it is read, and methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kept.errors import ConfigError
from kept.lab.comparison.experiment import Experiment
from kept.lab.comparison.files import find_experiment, require_links
from kept.methods import METHODS, method_key

ALL = "all"


def stopping(stop: Sequence[object], budget: float | None) -> Callable[[], bool]:
    """Whether Ctrl-C was pressed or `budget` minutes are over."""
    start = time.monotonic()
    return lambda: bool(stop) or (budget is not None and time.monotonic() - start >= budget * 60)


def read_experiment(
    task: str,
    kg: Path | None = None,
    *,
    folder: Path | None = None,
    limit: int | None = None,
    case: str | None = None,
    as_published: bool = False,
) -> Experiment:
    """The experiment of a name or a file, over the user's graph if there is one.

    `case` is how case counts where the task's texts are linked by names. `limit`: see
    `Experiment.limited`. `as_published`: even where the file does not say so. ConfigError: no such
    experiment, a faulty file, or a `case` for a task that links nothing.
    """
    overrides: dict[str, Any] = {} if kg is None else {"task.kg": str(kg.resolve())}
    if case is not None:
        overrides["task.case"] = case
    if as_published:
        overrides["as_published"] = True
    experiment = Experiment.read(find_experiment(task, folder), overrides)
    if case is not None:
        require_links(task, experiment.task)
    return experiment if limit is None else experiment.limited(limit)


def method_names(text: str, row_names: Sequence[str] | None = None) -> tuple[str, ...]:
    """The methods in a comma-separated text, or all `row_names`, else all that there are.

    Raises `ConfigError` for an unknown name.

    >>> method_names("K-BERT, ernie")
    ('kbert', 'ernie')
    """
    row_names = tuple(METHODS) if row_names is None else row_names
    if text.strip() == ALL:
        return tuple(row_names)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(
            f"give comma-separated names of methods, or {ALL}; there are {list(row_names)}"
        )
    by_folded_name = {
        name.casefold(): name for name in row_names
    }  # rows of a file may have names of their own
    return tuple(
        dict.fromkeys(by_folded_name.get(name.casefold()) or method_key(name) for name in names)
    )
