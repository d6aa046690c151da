"""A training step of each method, as `kept pretrain` does it, on one batch."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.on_gpu.common import Trial, host_numbers, matrix_rate, precision, world
from kept.batches import KnowledgeBatch
from kept.training.optimisers import make_optimisers
from kept.training.pretraining.assembly import assemble
from kept.training.pretraining.config import PretrainConfig
from kept.training.stream import BatchStream

METHODS = ("kbert", "colake", "ernie")
SIZES = (
    ("minilm", 256, METHODS), ("minilm", 2048, METHODS), ("bert-base", 1024, ("kbert", "colake")),
)  # fmt: skip
"""Host, texts of a batch, methods."""


class Step:
    """Forward, backward, clipping and update of a method on a batch on the device."""

    def __init__(self, folder: Path, name: str, trial: Trial, n_texts: int) -> None:
        config = PretrainConfig(
            method=name, host=str(folder / "host"), kg=folder / "kg",
            text=[folder / "texts.jsonl"],
            graph={"max_neighbours": 4, "max_words": 96, "max_nodes": 192},
            training={"steps": 1000, "batch_size": n_texts, "device": "cpu"},
        )  # fmt: skip
        model, data = assemble(config)
        stream = BatchStream(data, seed=0, batch_size=n_texts)
        self.model = model.to(trial.device).train()
        self.batch: KnowledgeBatch = stream[0].to(torch.device(trial.device))
        self.optimisers = make_optimisers(self.model, config.training)
        self.dense = [p for p in self.model.parameters() if p.requires_grad]
        self.n_nodes, self.device = int(self.batch.node_mask.sum()), trial.device

    def __call__(self, dtype: torch.dtype | None) -> torch.Tensor:
        with torch.autocast(self.device, torch.bfloat16, enabled=dtype is not None):
            losses = self.model(self.batch).losses
        total: torch.Tensor = torch.stack(list(losses.values())).sum()
        total.backward()
        dense = [p for p in self.dense if p.grad is not None and not p.grad.is_sparse]
        torch.nn.utils.clip_grad_norm_(dense, 1.0)
        for optimiser in self.optimisers.values():
            optimiser.step()
        self.model.zero_grad(set_to_none=True)
        return total.detach()


def waits_of(step: Step) -> dict[str, Any]:
    """How often a step waits for the GPU, by torch's own count, and at which lines."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(None)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    warned = [w for w in caught if "synchroniz" in str(w.message)]
    lines = [f"{Path(w.filename).name}:{w.lineno}" for w in warned]
    return {
        "waits": len(warned),
        "waits_at": {line: lines.count(line) for line in sorted(set(lines))},
    }


def queued_ms(trial: Trial, step: Step, dtype: torch.dtype | None) -> float:
    """Milliseconds a step where many follow one another and nothing waits in between."""
    n = 2 if trial.small else 10
    trial.wait()
    start = time.perf_counter()
    for _ in range(n):
        step(dtype)
    trial.wait()
    return round(1e3 * (time.perf_counter() - start) / n, 2)


def profile_of(step: Step, dtype: torch.dtype | None) -> dict[str, Any]:
    """Kernels of a step, the time that they took together, and the longest of them."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            step(dtype)
        torch.cuda.synchronize()
    kernels = [e for e in profiler.key_averages() if e.device_type.name == "CUDA"]
    kernels.sort(key=lambda e: -e.self_device_time_total)
    return {
        "kernels": sum(e.count for e in kernels) // 3,
        "kernel_ms": round(sum(e.self_device_time_total for e in kernels) / 3e3, 2),
        "longest": {e.key[:60]: round(e.self_device_time_total / 3e3, 2) for e in kernels[:8]},
    }


def run(trial: Trial) -> None:
    """Each method on each host in each precision."""
    rates = {name: _rate(trial, name, dtype) for name, dtype in trial.precisions.items()}
    trial.line(matrix_tflops={name: round(rate / 1e12, 1) for name, rate in rates.items()})
    sizes = (("tiny", 4, METHODS),) if trial.small else SIZES
    for shape, n_texts, methods in sizes:
        with world(shape) as folder:
            for method in methods:
                _measure(trial, Step(folder, method, trial, n_texts), method, shape, rates)


def _rate(trial: Trial, name: str, dtype: torch.dtype | None) -> float:
    with precision(name):
        return matrix_rate(trial, dtype or torch.float32, 128 if trial.small else 8192)


def _measure(trial: Trial, step: Step, method: str, shape: str, rates: dict[str, float]) -> None:
    host = step.model.encoder.host
    for name, dtype in trial.precisions.items():
        if name == "fp32" and len(step.batch) > 256:
            continue
        with precision(name):
            ms = trial.median_ms(lambda dtype=dtype: step(dtype))
            queued = queued_ms(trial, step, dtype)
            kernels = {} if name == "fp32" else profile_of(step, dtype)
        done = 6 * host_numbers(host) * step.n_nodes / (ms / 1e3)
        rows, n_nodes = step.batch.node_ids.shape
        line = {
            "method": method, "host": shape, "precision": name, "ms": round(ms, 2),
            "queued_ms": queued,
            "rows": rows, "padded_to": n_nodes, "nodes": step.n_nodes,
            "nodes_a_second": round(1e3 * step.n_nodes / ms),
            "share_of_matrix_rate": round(done / rates[name], 3),
        }  # fmt: skip
        if name == "fp32" and not trial.small:
            line |= waits_of(step)
        if kernels:
            line |= kernels
            line["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        trial.line(**line)
