"""Gradient norms: of all parameters, of sparse rows, and of each loss by itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from kept.training.optimisers import dense_parameters
from kept.training.processes.together import SINGLE_PROCESS, Processes


def shared_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The dense trainable parameters that losses share: the encoder's, where there is one."""
    encoder = getattr(model, "encoder", model)
    return dense_parameters(encoder if isinstance(encoder, nn.Module) else model)


def loss_norms(
    losses: Mapping[str, Tensor],
    parameters: Sequence[nn.Parameter],
    together: Processes = SINGLE_PROCESS,
) -> dict[str, float]:
    """The 2-norm of each unweighted loss's gradient on `parameters`, 0 where it depends on none.

    Nothing is accumulated and no random number used, so the step that follows is bitwise the same;
    it costs one backward pass per loss, and holds the autograd graph meanwhile. Where `together`
    are several processes, `losses` are their shares.
    """
    norms = dict.fromkeys(losses, 0.0)
    for name, loss in losses.items():
        if loss.requires_grad and parameters:
            of_loss = torch.autograd.grad(
                loss,
                parameters,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=together.n > 1,
            )
            gradients = together.summed([g for g in of_loss if g is not None])
            norms[name] = float(nn.utils.get_total_norm(gradients)) if gradients else 0.0
    return norms


def norm_of_gradients(parameters: Sequence[nn.Parameter]) -> float:
    """The 2-norm of the gradients that `parameters` hold, 0 where none has one."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return float(nn.utils.get_total_norm(gradients)) if gradients else 0.0


def row_norm(
    tables: Sequence[nn.Parameter],
    shared: Sequence[nn.Parameter] = (),
    together: Processes = SINGLE_PROCESS,
) -> float | Tensor | None:
    """The norm over all tables with sparse gradients, which are coalesced; None without tables.

    `shared` are rows that this process of several has; the others have the rest. Of tables on a GPU
    it is a tensor, which nobody has waited for.
    """
    parts = _squares(tables)
    if not shared and any(part.device.type != "cpu" for part in parts):
        there = next(part.device for part in parts if part.device.type != "cpu")
        return torch.stack([part.to(there, non_blocking=True) for part in parts]).sum().sqrt()
    squares = sum(map(float, parts))
    if shared:
        squares += together.sums([sum(map(float, _squares(shared)))])[0]
    return math.sqrt(squares) if tables or shared else None


def _squares(tables: Sequence[nn.Parameter]) -> list[Tensor]:
    squares = []
    for table in tables:
        if table.grad is not None:
            if table.grad.is_sparse:
                table.grad = table.grad.coalesce()  # the optimiser need not do it again
            values = table.grad.values() if table.grad.is_sparse else table.grad
            squares.append(values.square().sum())
    return squares
