"""Decoders: language models that read left to right, as hosts, and knowledge methods for them.

Names of `kept.decoders.hosts` are imported when they are used, so that `kept ask` starts without
torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kept.decoders.hosts import (
        FAMILIES,
        Pooling,
        causal_loss,
        check_decoder,
        embed,
        finish,
        layers,
        load_decoder,
        logits,
        masked_stepper,
        run,
        running_positions,
        sentence_vectors,
        stepper,
    )

__all__ = [
    "FAMILIES",
    "Pooling",
    "causal_loss",
    "check_decoder",
    "embed",
    "finish",
    "layers",
    "load_decoder",
    "logits",
    "masked_stepper",
    "run",
    "running_positions",
    "sentence_vectors",
    "stepper",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("kept.decoders.hosts"), name)
