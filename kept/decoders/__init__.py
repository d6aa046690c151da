"""Decoders: language models that read left to right, as hosts, and knowledge methods for them."""

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
