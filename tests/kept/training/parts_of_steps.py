"""A step of several parts by hand: the share of each mean, and the gradient that they leave."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.training.processes.together import SINGLE_PROCESS
from kept.training.weighing import PartCount, StepCount


def losses_in_parts(model: nn.Module, parts: Sequence[KnowledgeBatch]) -> dict[str, Tensor]:
    """The losses of a step of `parts`, each read by itself, as training adds them up.

    Every loss must count its labels: one that does not would leave all parts alike.
    """
    counts = []
    for part in parts:
        count = PartCount()
        with torch.no_grad(), count.counting(SINGLE_PROCESS, is_spare=False):
            count.losses = tuple(model(part).losses)
        counts.append(count)
    step, totals = StepCount(counts), {}
    assert step.is_complete, "a loss does not count its labels"
    for number, part in enumerate(parts):
        with step.shares(number, is_spare=False):
            for name, loss in model(part).losses.items():
                totals[name] = totals.get(name, torch.zeros(())) + loss
    return totals


def gradients_of(model: nn.Module, losses: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradient of all losses by parameter, whole where a table's is sparse."""
    model.zero_grad()
    torch.stack([*losses.values()]).sum().backward()
    named = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    gradients = {n: g.to_dense() if g.is_sparse else g.clone() for n, g in named.items()}
    model.zero_grad()
    return gradients
