"""Cross entropy over all entities, whose gradient takes the place of an array that is there.

`torch.nn.functional.cross_entropy` allocates two arrays of the size of the scores in its backward
pass: on a graph of 75,000 entities each has 150 MiB, and two sides are alive at once. Here it is
one. The kernels are torch's own, so that every bit is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MEAN, _NO_IGNORED = 1, -100
"""Torch's numbers of the reduction and of a label that is ignored."""


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, target: Tensor) -> Tensor:
        logs = torch.log_softmax(scores, 1)
        loss: Tensor
        loss, weight = torch.ops.aten.nll_loss_forward(logs, target, None, _MEAN, _NO_IGNORED)
        ctx.save_for_backward(logs, target, weight)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        logs, target, weight = ctx.saved_tensors
        gradient = torch.ops.aten.nll_loss_backward(
            gradients[0], logs, target, None, _MEAN, _NO_IGNORED, weight
        )
        return torch._log_softmax_backward_data(gradient, logs, 1, logs.dtype, out=gradient), None


def mean_cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross entropy of `scores [batch class]` for `target [batch]`."""
    loss: Tensor = _CrossEntropy.apply(scores, target)  # type: ignore[no-untyped-call]
    return loss
