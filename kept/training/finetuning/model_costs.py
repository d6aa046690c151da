"""Costs of a model: milliseconds per sentence, parameters."""

from __future__ import annotations

import statistics
import time

import torch

from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.training.finetuning.data import TaskData

N_TIMED = 5
"""Number of batches that are timed."""


@torch.no_grad()
def sentence_milliseconds(
    model: KnowledgeForTask, data: TaskData, *, batch_size: int = 32
) -> float:
    """Milliseconds of the model per sentence, without building graphs: median over batches."""
    batches = []
    for start in range(0, min(len(data), batch_size * N_TIMED), batch_size):
        stop = min(start + batch_size, len(data))
        samples = [data.sample(i, epoch=0, seed=0) for i in range(start, stop)]
        batches.append(data.collate(samples, epoch=0, seed=0, step=0).to(model.device))
    model.eval()
    times = []
    for batch in (batches[0], *batches):  # the first of all warms up
        begin = time.perf_counter()
        model(batch).class_logits.cpu()
        times.append((time.perf_counter() - begin) / len(batch) * 1000)
    return statistics.median(times[1:])


def size(module: torch.nn.Module) -> int:
    """Parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def n_trained(model: KnowledgeForPreTraining | KnowledgeForTask) -> int:
    """Parameters that are trained: not frozen, and read by some output."""
    unused = tuple(f"encoder.{prefix}" for prefix in model.encoder.unused)
    return sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not name.startswith(unused)
    )
