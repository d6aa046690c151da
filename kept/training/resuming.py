"""Choosing the checkpoint to resume from, and checking that it is this run's."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import torch

from kept.errors import CheckpointError
from kept.layers.products import Way, choice, has_onednn
from kept.training.checkpoint import TrainState, list_checkpoints, verify_checkpoint
from kept.training.config import TrainConfig, binding, differences
from kept.training.processes.together import Processes

PRODUCTS = "products"


class Resume(StrEnum):
    """What to do with checkpoints in the run's folder.

    `NEVER`: refuse a folder that has some. `LATEST`: go on from the last one, which must be whole.
    `IF_ANY`: the same, silently from the start when there is none yet. `NEWEST_GOOD`: set damaged
    ones aside (renamed, reported) and go on from the last whole one.
    """

    NEVER = "never"
    LATEST = "latest"
    IF_ANY = "if-any"
    NEWEST_GOOD = "newest-good"


def checkpoint_to_resume(
    checkpoints: Path, resume: Resume, notice: Callable[[str], None]
) -> Path | None:
    """Return the checkpoint in the folder `checkpoints` to resume from; None where there is none.

    Checkpoints set aside are reported to `notice`. Raises `CheckpointError` where there is one and
    `resume` forbids it.
    """
    saved = list_checkpoints(checkpoints)
    if saved and resume is Resume.NEVER:
        raise CheckpointError(
            f"{checkpoints.parent} already holds {saved[-1].name}; resume it (--resume) or choose "
            "another folder"
        )
    while saved and resume is Resume.NEWEST_GOOD:
        try:
            verify_checkpoint(saved[-1])
            break
        except CheckpointError as error:
            bad = saved.pop()
            aside = bad.rename(bad.with_name(f"{bad.name}.damaged-{time.time_ns()}"))
            notice(f"damaged: {error}; set aside as {aside.name}")
    return saved[-1] if saved else None


def require_same_run(
    path: Path, state: TrainState, config: TrainConfig, fingerprint: str, n_steps: int
) -> None:
    """Raise `CheckpointError` naming all differences to the run of the checkpoint `path`.

    `fingerprint` is that of the data, `n_steps` the present length of the run.
    """
    faults = differences(state.binding, binding(config))
    if state.data_fingerprint != fingerprint:
        faults.append(f"data: fingerprint {state.data_fingerprint}, now {fingerprint}")
    if state.published and state.step < n_steps:
        faults.append(
            f"steps: {state.step}, after which it was finished; now {n_steps} are requested"
        )
    if state.step > n_steps:
        faults.append(f"steps: {state.step} are done, now {n_steps} are requested")
    if faults:
        raise CheckpointError(
            f"{path} belongs to another run; restore these or choose another folder:\n"
            + "\n".join(f"  {fault}" for fault in faults)
        )


def environment(config: TrainConfig, device: torch.device, together: Processes) -> dict[str, str]:
    """Return what a run must go on in to be bitwise the same."""
    facts = {
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "device": device.type,
        "processes": str(together.n),
    }
    if device.type == "cpu":
        facts[PRODUCTS] = choice().way
    return facts | ({"shard": " ".join(config.shard)} if config.shard else {})


def products_of(state: TrainState) -> Way:
    """Return what computed the products of a checkpoint's run: torch's library in older ones.

    Where that was oneDNN and it is not there, the run goes on with torch's; `environment` tells.
    """
    return "onednn" if state.environment.get(PRODUCTS) == "onednn" and has_onednn() else "torch"
