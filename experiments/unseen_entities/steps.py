"""The steps of a training: batches in a random order, a rate that changes, gradients cut."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor], Tensor]


def take_steps(
    model: nn.Module, optimiser: torch.optim.Optimizer, rows: Tensor, loss: Loss, *, n_steps: int,
    batch_size: int, rate: Callable[[int], float], clip_norm: float, draws: torch.Generator,
) -> list[float]:  # fmt: skip
    """Train in place on batches of `rows`; return the losses, a tenth of the steps each."""
    model.train()
    losses, order, position = [], torch.zeros(0, dtype=torch.int64, device=rows.device), 0
    for step in range(n_steps):
        if position + batch_size > len(order):
            order, position = torch.randperm(len(rows), generator=draws, device=rows.device), 0
        batch = rows[order[position : position + batch_size]]
        position += batch_size
        for group in optimiser.param_groups:
            group["lr"] = rate(step)
        step_loss = loss(batch)
        optimiser.zero_grad(set_to_none=True)
        step_loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimiser.step()
        losses.append(step_loss.detach())
    model.eval()
    tenth = max(1, n_steps // 10)
    return [float(torch.stack(losses[i : i + tenth]).mean()) for i in range(0, n_steps, tenth)]
