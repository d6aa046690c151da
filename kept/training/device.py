"""The device of a run, and the process settings that it changes meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from accelerate import Accelerator

from kept.errors import ConfigError
from kept.training.config import TrainConfig
from kept.training.processes.together import processes


def make_accelerator(config: TrainConfig) -> Accelerator:
    """One on the device asked for, of this process; raises `ConfigError` for another."""
    no_gpu = processes().n > 1 and not torch.cuda.is_available()
    accelerator = Accelerator(cpu=config.device == "cpu" or no_gpu, mixed_precision="no")
    if config.device not in ("auto", accelerator.device.type):
        raise ConfigError(
            f"device {config.device!r} is not there; accelerate found {accelerator.device}"
        )
    return accelerator


def device_of(accelerator: Accelerator) -> torch.device:
    """The device of the run. Of several processes accelerate calls the processor `cpu:0`, another
    device than torch's own `cpu`: moving a model there would copy every tensor."""
    device: torch.device = accelerator.device
    return torch.device("cpu") if device.type == "cpu" else device


def autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """torch's own: accelerate has one precision per process, and a run's stages may have two.

    `config.precision` is "fp32" or "bf16": `kept.training.precision` has chosen where it was auto.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16")


@contextmanager
def process_settings(config: TrainConfig) -> Iterator[ExitStack]:
    """Thread count and global RNG for the run; the caller's are restored afterwards.

    So are the further settings that the run enters into the stack.
    """
    threads = torch.get_num_threads()
    with torch.random.fork_rng(), ExitStack() as settings:
        try:
            torch.set_num_threads(config.threads or threads)
            yield settings
        finally:
            torch.set_num_threads(threads)
