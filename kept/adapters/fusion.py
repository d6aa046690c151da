"""Fusion of the states of a host and its adapters (Wang et al. 2020, section 3.4).

Axis legend: batch, node, width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from kept.errors import ConfigError


class Fusion(nn.Module, ABC):
    """Abstract: one state per node, from the host's last and each adapter's."""

    def __init__(self, *, names: Sequence[str], width: int) -> None:
        super().__init__()

    @abstractmethod
    def forward(
        self, host: Float[Tensor, "batch node width"], adapters: Mapping[str, Tensor]
    ) -> Float[Tensor, "batch node width"]:
        """The fused states; `adapters` in the order of the names."""


class NoFusion(Fusion):
    """The host's state as it is: adapters are read from `KnowledgeOutput.adapter_states` alone."""

    def forward(
        self, host: Float[Tensor, "batch node width"], adapters: Mapping[str, Tensor]
    ) -> Float[Tensor, "batch node width"]:
        return host


class SumFusion(Fusion):
    """Host plus every adapter."""

    def forward(
        self, host: Float[Tensor, "batch node width"], adapters: Mapping[str, Tensor]
    ) -> Float[Tensor, "batch node width"]:
        fused = host
        for states in adapters.values():
            fused = fused + states
        return fused


class ConcatFusion(Fusion):
    """Each adapter beside the host through a layer of its own, then all of these through one.

    No activation (released code). A single adapter has no joint layer; the released code creates
    that layer and never uses it.
    """

    def __init__(self, *, names: Sequence[str], width: int) -> None:
        super().__init__(names=names, width=width)
        self.each = nn.ModuleDict({name: nn.Linear(2 * width, width) for name in names})
        n = len(names)
        self.joint = nn.Linear(n * width, width) if n > 1 else nn.Identity()
        for module in self.modules():
            module._is_hf_initialized = True  # type: ignore[assignment]  # torch's own, as released

    def forward(
        self, host: Float[Tensor, "batch node width"], adapters: Mapping[str, Tensor]
    ) -> Float[Tensor, "batch node width"]:
        parts = self.each_with_host(host, adapters)
        return self.joint(torch.cat(list(parts.values()), dim=-1))

    def each_with_host(
        self, host: Float[Tensor, "batch node width"], adapters: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Return the output of each adapter's own layer over host and adapter, in this order."""
        return {
            name: layer(torch.cat([host, adapters[name]], dim=-1))
            for name, layer in self.each.items()
        }


FUSIONS: dict[str, type[Fusion]] = {"none": NoFusion, "sum": SumFusion, "concat": ConcatFusion}


def make_fusion(kind: str, *, names: Sequence[str], width: int) -> Fusion:
    """The fusion called `kind`; raises `ConfigError` listing all of them."""
    if kind not in FUSIONS:
        raise ConfigError(f"fusion is {kind!r}; use one of {sorted(FUSIONS)}")
    if kind == "concat" and not names:
        raise ConfigError("fusion 'concat' needs an adapter; add one first, or use 'sum'")
    module: Any = FUSIONS[kind](names=names, width=width)
    fusion: Fusion = module
    return fusion
