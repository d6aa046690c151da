"""Curves of a training in TensorBoard, Weights & Biases or MLflow, by accelerate's trackers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kept.errors import MissingExtraError
from kept.suggestions import no_such
from kept.training.log import Reporter, StepRecord

NAMES = ("tensorboard", "wandb", "mlflow")


class Tracked:
    """A `Reporter` that hands every step on to trackers, and to another reporter first.

    What they get: each loss, the total, the learning rate, gradient norms, nodes and texts a
    second, by step; `settings` of the run once. Files of local trackers lie in `folder`.
    Raises `ConfigError` for an unknown name, `MissingExtraError` where its package is not
    installed. Weights & Biases keeps its files in `folder` and sends what WANDB_MODE lets it;
    MLflow writes to MLFLOW_TRACKING_URI, else to `mlflow.db` in `folder`.
    """

    def __init__(
        self,
        reporter: Reporter,
        names: Sequence[str],
        folder: Path,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._reporter = reporter
        self._trackers = [_tracker(name, folder) for name in dict.fromkeys(names)]
        for tracker in self._trackers:
            tracker.store_init_configuration(dict(_flat(settings or {})))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for tracker in self._trackers:
            tracker.finish()

    def step(self, record: StepRecord) -> None:
        """Hand on one step."""
        self._reporter.step(record)
        values: dict[str, float] = {f"loss/{name}": value for name, value in record.losses.items()}
        values["loss"] = record.total_loss
        for name in ("learning_rate", "gradient_norm", "row_gradient_norm", "nodes_per_second",
                     "texts_per_second", "peak_memory_mib"):  # fmt: skip
            value = getattr(record, name)
            if value is not None:
                values[name] = value
        for tracker in self._trackers:
            tracker.log(values, step=record.step)

    def notice(self, message: str) -> None:
        """Hand on a message."""
        self._reporter.notice(message)


def require_trackers(names: Iterable[str]) -> None:
    """Raise unless every tracker is known and installed; opens none."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS
    from accelerate.utils import (
        is_mlflow_available,
        is_tensorboard_available,
        is_wandb_available,
    )

    is_there = {"tensorboard": is_tensorboard_available, "wandb": is_wandb_available,
                "mlflow": is_mlflow_available}  # fmt: skip
    for name in names:
        if name not in NAMES or name not in LOGGER_TYPE_TO_CLASS:
            raise no_such("tracker", name, NAMES)
        if not is_there[name]():
            raise MissingExtraError(f"the tracker {name} is not installed: pip install {name}")


def _tracker(name: str, folder: Path) -> Any:
    from accelerate.state import PartialState
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    require_trackers([name])
    PartialState()
    kind = LOGGER_TYPE_TO_CLASS[name]
    if name == "tensorboard":
        tracker = kind("tensorboard", logging_dir=str(folder))
    elif name == "wandb":
        tracker = kind(folder.name, dir=str(folder))
    else:
        _keep_mlflow_in(folder)
        tracker = kind(folder.name, logging_dir=(folder.resolve() / "mlflow").as_uri())
    tracker.start()
    return tracker


def _keep_mlflow_in(folder: Path) -> None:
    """Without MLFLOW_TRACKING_URI, MLflow's own database is `mlflow.db` of the run's folder.

    Else it would lie in the working directory, where runs of other projects may already be.
    """
    if "MLFLOW_TRACKING_URI" in os.environ:
        return
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder.resolve() / 'mlflow.db'}")


def _flat(values: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Settings by dotted names; what no tracker can hold as text."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, (int, float, str, bool)):
            yield f"{before}{name}", value
        elif value is not None:
            yield f"{before}{name}", str(value)
