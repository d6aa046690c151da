"""Training of a joint space: steps, and a checkpoint that resumes to the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from kept.errors import CheckpointError, TrainingError
from kept.model_files import readable
from kept.randomness import generator
from kg_loaders.disk.seals import FolderFormat, is_of, open_sealed, seal
from kg_loaders.disk.writing import whole_folder

STATE, CHECKPOINTS = "state.safetensors", "checkpoint"
CHECKPOINT = FolderFormat(
    kind="kept joint space checkpoint",
    version=1,
    what="a checkpoint of a joint space",
    remedy="train again in a new folder",
    make="kept vectors train writes one",
    mark=STATE,
    error=CheckpointError,
    manifest="checkpoint.json",
)


class Space(Protocol):
    """A joint space under training. All draws of a step are named by its pass and number."""

    n_steps: int

    def step(self, epoch: int, number: int, done: float) -> tuple[float, int]:
        """Train a step; `done` is the share of the training so far. Sum of losses, their number."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that a step changes."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state`."""
        ...


@dataclass
class Progress:
    """Steps done, the mean loss of each finished pass, and the sums of the one at hand."""

    step: int = 0
    losses: list[float] = field(default_factory=list)
    total: float = 0.0
    n: int = 0


def train(
    space: Space,
    folder: Path,
    *,
    epochs: int,
    fingerprint: str,
    resume: bool,
    checkpoint_seconds: float,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Progress:
    """Train to the end, or until `should_stop`, leaving a checkpoint in `folder` either way.

    Killed and resumed, a space ends with the same bits on a CPU. `fingerprint` is of all that
    decides what a step does. Raises `CheckpointError` for the checkpoint of another training,
    `TrainingError` for a loss that is not finite.
    """
    progress, n_all = Progress(), epochs * space.n_steps
    checkpoints = folder / CHECKPOINTS
    if resume and is_of(checkpoints, CHECKPOINT):
        progress = _resume(space, checkpoints, fingerprint)
    saved = time.monotonic()
    while progress.step < n_all and not should_stop():
        epoch, number = divmod(progress.step, space.n_steps)
        total, n = space.step(epoch, number, progress.step / n_all)
        progress.step, progress.total, progress.n = (
            progress.step + 1,
            progress.total + total,
            progress.n + n,
        )
        if not abs(progress.total) < float("inf"):
            raise TrainingError(f"loss is {total} in step {progress.step}; lower learning_rate")
        on_step(progress.step, progress.total / max(progress.n, 1))
        if number + 1 == space.n_steps:
            progress.losses.append(progress.total / max(progress.n, 1))
            progress.total, progress.n = 0.0, 0
        if time.monotonic() - saved >= checkpoint_seconds:
            _save(space, checkpoints, fingerprint, progress)
            saved = time.monotonic()
    _save(space, checkpoints, fingerprint, progress)
    return progress


def _save(space: Space, path: Path, fingerprint: str, progress: Progress) -> None:
    state = {name: tensor.detach().contiguous() for name, tensor in space.state().items()}
    content = {"fingerprint": fingerprint, "progress": vars(progress)}

    def is_checkpoint(folder: Path) -> bool:
        return is_of(folder, CHECKPOINT)

    with whole_folder(path, kind="checkpoint", is_kind=is_checkpoint, force=True) as part:
        (part / STATE).write_bytes(save(state))
        seal(part, CHECKPOINT, content, [STATE])


def _resume(space: Space, path: Path, fingerprint: str) -> Progress:
    sealed = open_sealed(path, CHECKPOINT)
    sealed.require_files([STATE])
    state: Mapping[str, Any] = sealed.values
    if state["fingerprint"] != fingerprint:
        raise CheckpointError(
            f"{path} is of another training: text, graph or settings differ; give those of that "
            "training, or a new folder"
        )
    with readable(path / STATE):
        space.load(load((path / STATE).read_bytes()))
    return Progress(**state["progress"])


@lru_cache(maxsize=8)
def permutation(seed: int, what: str, number: int, n: int) -> NDArray[np.int64]:
    """The order of `n` things in pass `number`; every step of the pass reads a part of it."""
    order = generator(seed, "joint", what, number).permutation(n).astype(np.int64)
    order.flags.writeable = False
    return order


def chunks(n: int, size: int) -> Sequence[tuple[int, int]]:
    """Where each of the parts of at most `size` of `n` things begins and ends; one, if n is 0."""
    return [(start, min(start + size, n)) for start in range(0, max(n, 1), size)]
