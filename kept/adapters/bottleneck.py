"""Bottlenecks inside the host's layers: the adapters of Houlsby et al. 2019.

Axis legend: batch, node, width (the host's).
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from kept import hosts
from kept.errors import ConfigError, HostError
from kept.host_families import family_of

MODULE_NAME = "bottleneck"


@dataclass(frozen=True, kw_only=True)
class HoulsbyOptions:
    """`width` of the bottlenecks; raises `ConfigError` below 1."""

    width: int = 64

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"houlsby: width {self.width}: 1 or more")


class Bottleneck(nn.Module):
    """Down to `inner`, gelu, up again, plus its own input; at first the identity.

    Where we differ from the paper, which initialises both projections near 0: the up projection
    starts at 0, so that a new bottleneck is exactly the identity.
    """

    def __init__(self, *, width: int, inner: int) -> None:
        super().__init__()
        self.down_project = nn.Linear(width, inner)
        self.up_project = nn.Linear(inner, width)
        nn.init.normal_(self.down_project.weight, std=1e-2)
        for zero in (self.down_project.bias, self.up_project.weight, self.up_project.bias):
            nn.init.zeros_(zero)

    def forward(self, states: Float[Tensor, "*batch node width"]) -> Tensor:
        changed: Tensor = states + self.up_project(F.gelu(self.down_project(states)))
        return changed


class DropoutThenBottleneck(nn.Module):
    """What takes the place of the dropout that ends a sub-layer, before its skip connection."""

    def __init__(self, dropout: nn.Module, bottleneck: Bottleneck) -> None:
        super().__init__()
        self.dropout, self.bottleneck = dropout, bottleneck

    def forward(self, states: Float[Tensor, "*batch node width"]) -> Tensor:
        adapted: Tensor = self.bottleneck(self.dropout(states))
        return adapted


def insert_bottlenecks(host: PreTrainedModel, options: HoulsbyOptions) -> None:
    """Insert two bottlenecks per layer: after attention and after the feed-forward.

    Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP" (ICML), section 2.1,
    figure 2: on a sub-layer's output, before the skip connection is added. Raises `HostError` for
    a family that has no such place.
    """
    if not family_of(host.config).has_bert_outputs:
        raise HostError(
            "bottlenecks go before the last dropout of a sub-layer, and a "
            f"{host.config.model_type} host has none there; use lora"
        )
    width = host.config.hidden_size
    for layer in hosts.layers(host):
        for sublayer in ("attention.output", "output"):
            output = layer.get_submodule(sublayer)
            bottleneck = Bottleneck(width=width, inner=options.width)
            output.dropout = DropoutThenBottleneck(output.get_submodule("dropout"), bottleneck)
