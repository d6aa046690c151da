"""The precision in which products are computed, chosen by what this machine does faster.

bfloat16 is two to four times as fast as float32 on a GPU or a processor that has instructions for
it (AVX-512 BF16, AMX), and seven to ten times slower on one that has not. `precision: auto` times
one step of each, of a layer as wide as MiniLM's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import nn

from kept import hosts
from kept.errors import ConfigError
from kept.layers.products import Linear
from kept.training.config import TrainConfig

Precision = Literal["fp32", "bf16"]
LEAST_GAIN = 1.25
"""How many times as fast bfloat16 must be to be chosen: less is not worth its rounding."""
WIDTH, N_WORDS, N_TIMES = 384, 128, 4
ENOUGH_SECONDS = 0.1
"""Of a processor, after which no further turn is timed: one shows seven times slower."""


@dataclass(frozen=True)
class PrecisionChoice:
    """A precision, and how many times as fast bfloat16 is as float32; None: it was not timed."""

    precision: Precision
    gain: float | None = None

    def __str__(self) -> str:
        if self.gain is None:
            return f"precision: {self.precision}"
        how = (
            f"{self.gain:.1f} times as fast"
            if self.gain >= 1
            else f"{1 / self.gain:.1f} times as slow"
        )
        return f"precision: {self.precision} (a step in bf16 is {how} as one in fp32 here)"


def choose_precision(
    config: TrainConfig, device: torch.device, model: nn.Module | None = None
) -> PrecisionChoice:
    """Return the precision that `config` names, or the faster one on `device` where it is auto.

    A host of a family that kept does not know may not be able to compute in bf16: with auto it
    computes in fp32 then, and bf16 raises `ConfigError`.
    """
    if config.precision == "auto":
        choice = faster_precision(device.type)
    else:
        choice = PrecisionChoice(config.precision)
    host = getattr(getattr(model, "encoder", None), "host", None)
    if choice.precision == "fp32" or host is None or hosts.computes_in_bf16(host):
        return choice
    if config.precision == "auto":
        return PrecisionChoice("fp32")
    raise ConfigError(
        f"a {host.config.model_type} host cannot compute in bf16 in transformers; give precision: "
        "fp32 (--set training.precision=fp32)"
    )


@cache
def faster_precision(device: str) -> PrecisionChoice:
    """Return the precision with the shorter step, timed once in a process.

    Apple's and other devices compute in float32, untimed.
    """
    if device not in ("cpu", "cuda"):
        return PrecisionChoice("fp32")
    seconds = step_seconds(torch.device(device))
    gain = seconds["fp32"] / seconds["bf16"]
    return PrecisionChoice("bf16" if gain >= LEAST_GAIN else "fp32", gain)


def step_seconds(device: torch.device) -> dict[Precision, float]:
    """Return the shortest time of a few steps of one layer in each precision, which take turns.

    On a processor it is processor time of one thread, which other programs do not lengthen. RNG and
    thread count are left as they were.
    """
    threads, is_cuda = torch.get_num_threads(), device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if is_cuda else []):
        layer = nn.Sequential(Linear(WIDTH, 4 * WIDTH), nn.GELU(), Linear(4 * WIDTH, WIDTH))
        words = torch.randn(N_WORDS, WIDTH)
    layer, words = layer.to(device), words.to(device)
    turns: dict[Precision, list[float]] = {"fp32": [], "bf16": []}
    try:
        torch.set_num_threads(1)
        for _ in range(N_TIMES):
            for precision, seconds in turns.items():
                seconds.append(_seconds(layer, words, precision))
            if not is_cuda and sum(map(sum, turns.values())) > ENOUGH_SECONDS:
                break
    finally:
        torch.set_num_threads(threads)
    return {precision: min(seconds) for precision, seconds in turns.items()}


def _seconds(layer: nn.Module, words: torch.Tensor, precision: Precision) -> float:
    device = words.device
    clock = time.perf_counter if device.type == "cuda" else time.thread_time
    layer.zero_grad()
    start = clock()
    with torch.enable_grad():
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            loss = layer(words).float().square().mean()
        loss.backward()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start
