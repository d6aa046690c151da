"""Where a run computes, and what of the process it changes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate import Accelerator

from kept.errors import ConfigError
from kept.training.config import TrainConfig


def make_accelerator(config: TrainConfig) -> Accelerator:
    """One process on the device asked for; raises `ConfigError` for another or for several."""
    made = Accelerator(cpu=config.device == "cpu", mixed_precision="no")
    if made.num_processes > 1:
        raise ConfigError(
            f"training runs in one process, not {made.num_processes}: start it without a launcher"
        )
    if config.device not in ("auto", made.device.type):
        raise ConfigError(f"device {config.device!r} is not there; accelerate found {made.device}")
    return made


def autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """torch's own: accelerate holds one precision a process, and a run's stages may have two."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16")


@contextmanager
def process_settings(config: TrainConfig) -> Iterator[None]:
    """Thread count and global RNG for the run; the caller's come back afterwards."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng():
        try:
            torch.set_num_threads(config.threads or threads)
            yield
        finally:
            torch.set_num_threads(threads)
