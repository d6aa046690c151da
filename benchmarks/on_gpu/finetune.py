"""`kept finetune` on the GPU, and the answers of its model there and on the processor."""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch

from benchmarks.on_gpu.common import Trial, kept, world
from kept.auto import AutoEncoder
from kept.tasks.datasets.atlas import atlas_examples, write_atlas
from kept.tasks.datasets.example import from_relation
from kept.training.finetuning.predictor import Predictor
from kg_loaders import KnowledgeGraph, atlas

TOLERANCE = 2e-3
"""How far a logit may be from the processor's, in float32 with float32 products."""


def run(trial: Trial) -> None:
    """Train ERNIE on relations of the atlas; compare the logits of its test examples."""
    n_train, n_test, steps = (40, 8, 4) if trial.small else (6000, 500, 150)
    examples = list(atlas_examples(atlas.sentences()))
    with world("tiny" if trial.small else "minilm") as folder:
        write_atlas(folder / "train.jsonl", examples[:n_train])
        write_atlas(folder / "test.jsonl", examples[-n_test:])
        out = folder / "run"
        trial.line(**_trained(trial, folder, out, steps))
        predictor, graph = Predictor.from_pretrained(out), KnowledgeGraph.open(folder / "kg")
        questions = [from_relation(example) for example in examples[-n_test:]]
        _compare(trial, predictor, questions, graph)
        _encode(trial, folder, [e.linked.text for e in questions], graph)


def _trained(trial: Trial, folder: Path, out: Path, steps: int) -> dict[str, object]:
    seconds = kept(
        "finetune", "--task", "relation", "--format", "atlas",
        "--train", folder / "train.jsonl", "--test", folder / "test.jsonl",
        "--kg", folder / "kg", "--method", "ernie", "--host", folder / "host",
        "--steps", steps, "--batch-size", 8 if trial.small else 64,
        "--device", trial.device, "-o", out, "--set", "training.log_every=2",
    )  # fmt: skip
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if "total_loss" in row]
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    return {
        "command_seconds": round(seconds, 1), "steps": rows[-1]["step"],
        "texts_a_second": round(rows[-1]["texts_per_second"]),
        "first_loss": round(rows[0]["total_loss"], 3),
        "last_loss": round(rows[-1]["total_loss"], 3),
        "accuracy": metrics["test"]["accuracy"]["estimate"], "precision": metrics["precision"],
    }  # fmt: skip


def _compare(
    trial: Trial, predictor: Predictor, questions: list[object], graph: KnowledgeGraph
) -> None:
    logits, seconds = {}, {}
    for device in ("cpu", trial.device):
        predictor.model.to(device)
        start = time.monotonic()
        logits[device] = predictor.logits(questions, graph)  # type: ignore[arg-type]
        seconds[device] = time.monotonic() - start
    far = float((logits["cpu"] - logits[trial.device]).abs().max())
    same = (logits["cpu"].argmax(1) == logits[trial.device].argmax(1)).double().mean()
    trial.line(
        answers=len(questions), farthest_logit=far, equal=far <= TOLERANCE,
        same_answers=float(same), cpu_seconds=round(seconds["cpu"], 2),
        seconds=round(seconds[trial.device], 2),
    )  # fmt: skip


def _encode(trial: Trial, folder: Path, texts: list[str], graph: KnowledgeGraph) -> None:
    """Vectors of texts by `AutoEncoder`, there and on the processor."""
    encoder = AutoEncoder.from_pretrained(folder / "run")

    def vectors() -> torch.Tensor:
        return torch.stack([each.sentence.float().cpu() for each in encoder.encode(texts, graph)])

    on_cpu = vectors()
    encoder.encoder.to(trial.device)
    start = time.monotonic()
    there = vectors()
    trial.line(
        vectors=len(texts), farthest=float((on_cpu - there).abs().max()),
        texts_a_second=round(len(texts) / (time.monotonic() - start)),
    )  # fmt: skip
