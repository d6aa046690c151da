"""Projected attention beside the host's layers: the PALs of Stickland and Murray 2019.

Axis legend: batch, node, width (the host's), inner (the projection's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from kept import hosts
from kept.errors import ConfigError

MODULE_NAME = "pal"


@dataclass(frozen=True, kw_only=True)
class PALOptions:
    """`width` of the projection, split over `heads`; raises `ConfigError` where it cannot be."""

    width: int = 204
    heads: int = 12

    def __post_init__(self) -> None:
        if self.width < 1 or self.heads < 1 or self.width % self.heads:
            raise ConfigError(
                f"pals: width {self.width} and heads {self.heads}: both 1 or more, the width a "
                "multiple of the heads"
            )


class Projections(nn.Module):
    """Down to the inner width and up again, shared by all layers; up starts at 0."""

    def __init__(self, *, width: int, inner: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(inner, width, bias=False)
        nn.init.normal_(self.down.weight, std=2e-2)
        nn.init.zeros_(self.up.weight)


class ProjectedAttention(nn.Module):
    """Attention of one layer in the projected space, over the nodes that the host's layer sees."""

    def __init__(self, *, inner: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value = (nn.Linear(inner, inner) for _ in range(3))

    def forward(self, states: Float[Tensor, "batch node inner"], mask: Tensor | None) -> Tensor:
        """Attended states; `mask` is the host's."""
        query, key, value = (
            part(states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        if mask is not None and mask.is_floating_point():
            mask = mask.to(query.dtype)
        attended = F.scaled_dot_product_attention(query, key, value, mask, dropout)
        return attended.transpose(1, 2).flatten(2)


class LayerWithPAL:
    """What a host's layer becomes: its own output before the last normalisation, plus a PAL's."""

    attention: nn.Module
    intermediate: nn.Module
    output: Any
    pal: ProjectedAttention
    _shared: tuple[Projections]

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The layer's states; arguments as those of transformers' layers."""
        (shared,) = self._shared
        pal_output = shared.up(self.pal(shared.down(hidden_states), attention_mask))
        attended, *_ = self.attention(hidden_states, attention_mask)
        transformed = self.output.dropout(self.output.dense(self.intermediate(attended)))
        states: Tensor = self.output.LayerNorm(transformed + attended + pal_output)
        return states


def insert_pals(host: PreTrainedModel, options: PALOptions) -> None:
    """Add a PAL beside each layer, initially without effect.

    Stickland and Murray 2019, "BERT and PALs: Projected Attention Layers for Efficient Adaptation
    in Multi-Task Learning" (ICML), section 3: attention in a projected space, projections shared by
    all layers, beside the whole layer and added before its last normalisation. Where we differ: up
    starts at 0, so that nothing changes before training; and there is one set of PALs, not one for
    each of several tasks. Raises `HostError` for a family whose layers are not like BERT's.
    """
    hosts.require_bert_layers(host, "a projected attention layer")
    config = host.config
    shared = Projections(width=config.hidden_size, inner=options.width)
    host.encoder.add_module(MODULE_NAME, shared)
    for layer in hosts.layers(host):
        pal = ProjectedAttention(
            inner=options.width, heads=options.heads, dropout=config.attention_probs_dropout_prob
        )
        layer.add_module(MODULE_NAME, pal)
        vars(layer)["_shared"] = (shared,)  # not registered: one set of weights in a file
        layer.__class__ = type(type(layer).__name__, (LayerWithPAL, type(layer)), {})
