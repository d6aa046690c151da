"""A learned mixture of all layers in the place of the last one.

Axis legend: layer (the embeddings and every layer after them), batch, node, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from kept.errors import BatchError


@dataclass(frozen=True, kw_only=True)
class LayerMixOptions:
    """`layer_norm`: each layer's states are normalised before they are weighted."""

    layer_norm: bool = False


class LayerMix(nn.Module):
    """`gamma * sum(softmax(scores)[j] * states[j])`, initially the mean of all layers.

    Peters et al. 2018, "Deep contextualized word representations" (ELMo), section 3.2, equation 1.
    Where we differ from the released code: the layer norm is over the width of each node (there,
    over all nodes of a layer), so that a batch of n is n batches of one.
    """

    def __init__(self, n_layers: int, *, layer_norm: bool) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.scores = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Float[Tensor, " layer"]:
        """The share of each layer; they sum to 1."""
        return self.scores.softmax(dim=0)

    def forward(
        self, states: Sequence[Float[Tensor, "batch node width"]]
    ) -> Float[Tensor, "batch node width"]:
        """The mixed states; raises `BatchError` for another number of layers."""
        if len(states) != len(self.scores):
            raise BatchError(f"{len(states)} layers of states, this mixes {len(self.scores)}")
        if self.layer_norm:
            states = [F.layer_norm(state, state.shape[-1:]) for state in states]
        mixed = torch.stack([w * s for w, s in zip(self.weights, states, strict=True)]).sum(dim=0)
        return self.gamma * mixed

    def report(self) -> dict[str, list[float] | float]:
        """Weights and gamma as plain values."""
        return {"weights": self.weights.tolist(), "gamma": self.gamma.item()}
