"""What computes an encoder in inference: torch, OpenVINO or ONNX Runtime, and in which precision.

Whatever is not torch in float32 is compared with it on the first batch.
"""

from __future__ import annotations

import copy
import logging
import time
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from kept import hosts
from kept.auto.exported import open_runner
from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.errors import ConfigError
from kept.layers.products import Linear
from kept.outputs import KnowledgeOutput

Backend = Literal["torch", "openvino", "onnx"]
Precision = Literal["fp32", "bf16", "int8", "auto"]
PRECISIONS: dict[str, tuple[str, ...]] = {
    "torch": ("fp32", "bf16", "int8", "auto"),
    "openvino": ("fp32", "bf16"),
    "onnx": ("fp32",),
}
"""The precisions of each backend."""
LEAST_COSINE = 0.999
"""What vectors must agree to for `auto` to leave float32."""
MOST_DIFFERENT = 1e-3
"""How far states in float32 may be from torch's before a backend is refused."""

_log = logging.getLogger("kept")


@dataclass(frozen=True)
class Agreement:
    """How vectors of the first batch agree with torch's in float32, and how fast they came.

    `max_difference` is of the states of all nodes, `least_cosine` of the means of texts.
    `times_as_fast` is of processor time.
    """

    backend: Backend
    precision: str
    max_difference: float
    least_cosine: float
    times_as_fast: float

    def __str__(self) -> str:
        return (
            f"{self.backend} in {self.precision}: {self.times_as_fast:.1f} times as fast as torch "
            f"in fp32, cosine at least {self.least_cosine:.5f}, states at most "
            f"{self.max_difference:.1e} apart, on a batch"
        )


class Computation:
    """An encoder in inference, by a backend and in a precision; both are checked when made.

    The weights are those of the encoder when it is made and at the first batch.
    """

    def __init__(
        self, encoder: KnowledgeEncoder, backend: Backend = "torch", precision: Precision = "fp32"
    ) -> None:
        known = PRECISIONS.get(backend)
        if known is None:
            raise ConfigError(f"backend {backend!r}: one of {', '.join(PRECISIONS)}")
        if precision not in known:
            raise ConfigError(
                f"precision {precision!r}: backend {backend!r} has {', '.join(known)}"
            )
        self.encoder, self.backend, self.precision = encoder, backend, precision
        self.agreement: Agreement | None = None
        self._model: nn.Module = encoder
        self._n_calls = 0
        hosts.compute_with(encoder.host, None)
        if backend != "torch":
            self._runner = open_runner(encoder.host, backend, bf16=precision == "bf16")

    @torch.no_grad()
    def __call__(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return what the encoder returns for the batch; raises `ConfigError` at the first one
        where the backend cannot compute it."""
        is_plain = self.backend == "torch" and self.precision == "fp32"
        if self.agreement is None and not is_plain:
            self._prepare(batch)
        output: KnowledgeOutput = self._model(batch)
        return output

    def _prepare(self, batch: KnowledgeBatch) -> None:
        """Compare with torch on this batch, and choose where the precision is auto."""
        reference, seconds = _timed(self.encoder, batch)
        if self.backend == "torch":
            names: tuple[str, ...] = (
                ("bf16", "int8") if self.precision == "auto" else (self.precision,)
            )
            models: dict[str, nn.Module] = {
                name: _in_precision(self.encoder, name) for name in names
            }
        else:
            hosts.compute_with(self.encoder.host, self._counted)
            names = (self.precision,)
            models = {self.precision: self.encoder}
        best = Agreement(self.backend, "fp32", 0.0, 1.0, 1.0)
        for name in names:
            ours, spent = _timed(models[name], batch)
            agreement = _agreement(self, name, batch, reference, ours, seconds / max(spent, 1e-9))
            _log.info("%s", agreement)
            is_better = agreement.times_as_fast > best.times_as_fast
            if self.precision != "auto" or (is_better and agreement.least_cosine >= LEAST_COSINE):
                best, self._model = agreement, models[name]
        self._require_same(best)
        self.agreement = best
        if self.precision == "auto":
            _log.info("precision: %s", best.precision)

    def _counted(
        self, hidden: Tensor, visible: Tensor, positions: Tensor | None
    ) -> tuple[Tensor, ...]:
        self._n_calls += 1
        return self._runner(hidden, visible, positions)

    def _require_same(self, agreement: Agreement) -> None:
        if self.backend == "torch":
            return
        fault = None
        if not self._n_calls:
            fault = f"{type(self.encoder).__name__} computes between the layers of its host"
        elif agreement.precision == "fp32" and agreement.max_difference > MOST_DIFFERENT:
            fault = f"its states differ from torch's by {agreement.max_difference:.1e}"
        if fault is not None:
            hosts.compute_with(self.encoder.host, None)
            raise ConfigError(f"backend {self.backend!r} cannot be used: {fault}; use 'torch'")


def _timed(model: nn.Module, batch: KnowledgeBatch) -> tuple[KnowledgeOutput, float]:
    """Return the second of two outputs, and its processor time: the first prepares weights."""
    model(batch)
    start = time.process_time()
    output: KnowledgeOutput = model(batch)
    return output, time.process_time() - start


def _agreement(
    computation: Computation,
    precision: str,
    batch: KnowledgeBatch,
    reference: KnowledgeOutput,
    output: KnowledgeOutput,
    times_as_fast: float,
) -> Agreement:
    mask = batch.node_mask[..., None]
    theirs, ours = (each.node_states.float() * mask for each in (reference, output))
    cosines = cosine_similarity(theirs.sum(1), ours.sum(1))
    difference = float((ours - theirs).abs().max())
    backend = computation.backend
    return Agreement(backend, precision, difference, float(cosines.min()), times_as_fast)


def _in_precision(encoder: KnowledgeEncoder, precision: str) -> nn.Module:
    """Return a copy of the encoder in bfloat16, or with linear layers in int8.

    Each row of a weight has a scale of its own: with one for the whole weight, the mean cosine of
    MiniLM's vectors was 0.95 instead of 0.98.
    """
    changed = copy.deepcopy(encoder)
    if precision == "bf16":
        half: nn.Module = changed.to(torch.bfloat16)
        return half
    for module in changed.modules():
        if type(module) is Linear:  # the conversion goes by the very type
            object.__setattr__(module, "__class__", nn.Linear)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is to move to torchao, another package
        by_row = torch.ao.quantization.per_channel_dynamic_qconfig
        quantise: Any = torch.ao.quantization.quantize_dynamic
        int8: nn.Module = quantise(changed, {nn.Linear: by_row}, dtype=torch.qint8, inplace=True)
    return int8
