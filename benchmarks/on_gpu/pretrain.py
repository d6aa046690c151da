"""`kept pretrain` as a user starts it, with several numbers of workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.on_gpu.common import Trial, kept, world

STEPS = {0: 10, 4: 30, 16: 80}
"""Workers to steps: about as many seconds each."""


def run(trial: Trial) -> None:
    """CoLAKE on MiniLM's shape."""
    batch = 4 if trial.small else 256
    with world("tiny" if trial.small else "minilm") as folder:
        for workers in (0, 1) if trial.small else (0, 16, 4):
            steps = 6 if trial.small else STEPS[workers]
            trial.line(
                workers=workers, batch=batch, **trained(trial, folder, workers, steps, batch)
            )


def trained(trial: Trial, folder: Path, workers: int, steps: int, batch: int) -> dict[str, Any]:
    """Start the command; return the rates of its log, from a third of its steps on."""
    out = folder / f"run-{workers}"
    whole = kept(
        "pretrain", "--method", "colake", "--host", folder / "host", "--kg", folder / "kg",
        "--text", folder / "texts.jsonl", "-o", out, "--steps", steps,
        "--batch-size", batch, "--workers", workers, "--device", trial.device,
        "--set", "training.log_every=2", "--set", "training.prefetch=4",
        "--set", "training.gradient_norms_every=1000000", "--set", "graph.max_neighbours=4",
        "--set", f"training.precision={'fp32' if trial.small else 'bf16'}",
    )  # fmt: skip
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if "total_loss" in row]
    first, last = rows[len(rows) // 3], rows[-1]
    seconds = last["seconds"] - first["seconds"]
    n_steps = last["step"] - first["step"]
    waited = last["waiting_seconds"] - first["waiting_seconds"]
    return {
        "command_seconds": round(whole, 1), "first_batch_seconds": round(rows[0]["seconds"], 1),
        "texts_a_second": round(n_steps * batch / seconds),
        "ms_a_step": round(1e3 * seconds / n_steps, 1),
        "waiting_ms_a_step": round(1e3 * waited / n_steps, 1),
        "share_waited": round(waited / seconds, 3),
        "first_loss": round(rows[0]["total_loss"], 3), "last_loss": round(last["total_loss"], 3),
    }  # fmt: skip
