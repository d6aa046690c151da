"""The layer normalisation of UER, which K-BERT's released weights were trained with.

Axis legend: width.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class UERLayerNorm(nn.Module):
    """`weight * (x - mean) / (std + epsilon) + bias`.

    Zhao et al. 2019, "UER" (EMNLP, system demonstrations), released code. Differs from
    `torch.nn.LayerNorm` twice: the standard deviation is the unbiased one (divided by width - 1),
    and epsilon is added to it instead of to the variance under the root.
    """

    def __init__(self, width: int, *, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.epsilon = epsilon

    def forward(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        deviation, mean = torch.std_mean(states, dim=-1, keepdim=True)
        return self.weight * (states - mean) / (deviation + self.epsilon) + self.bias


def use_uer_norm(module: nn.Module) -> None:
    """Put a `UERLayerNorm` with the same weights in the place of every layer norm in `module`."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.LayerNorm):
                replacement = UERLayerNorm(child.normalized_shape[0])
                replacement.weight, replacement.bias = child.weight, child.bias
                setattr(parent, name, replacement)
