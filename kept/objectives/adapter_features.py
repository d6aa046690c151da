"""Input of an adapter's own objective: the host's state and the adapter's, concatenated.

Axis legend: batch, node, width.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from kept.encoders.base import KnowledgeEncoder
from kept.encoders.kadapter import KAdapter
from kept.errors import ConfigError
from kept.outputs import KnowledgeOutput


class AdapterFeatures(nn.Module):
    """[host's last state | adapter's state] through one linear layer (Wang et al. 2020, code).

    With `alone` (not of the paper) the adapter's state alone: beside the host's, a linear layer can
    separate a few hundred pairs by their names, and the adapter then learns nothing.
    """

    def __init__(self, *, adapter: str, width: int, alone: bool = False) -> None:
        super().__init__()
        self.adapter, self.alone = adapter, alone
        self.com_dense = nn.Linear(width if alone else 2 * width, width)

    def forward(self, output: KnowledgeOutput) -> Float[Tensor, "batch node width"]:
        """Features of every node."""
        host, adapter_states = (
            output.hidden_states[-2],
            output.adapter_states[self.adapter],
        )  # -1: fused
        return self.com_dense(
            adapter_states if self.alone else torch.cat([host, adapter_states], dim=-1)
        )


class NodeFeatures(nn.Module):
    """The states of an encoder without adapters, as they are."""

    def forward(self, output: KnowledgeOutput) -> Float[Tensor, "batch node width"]:
        """Features of every node."""
        return output.node_states


def features_for(
    encoder: KnowledgeEncoder, adapter: str, *, alone: bool = False
) -> AdapterFeatures | NodeFeatures:
    """The features of `adapter`; "" = the only one that is in training, or no adapter at all.

    Raises `ConfigError` when it is not clear which adapter is meant.
    """
    if not isinstance(encoder, KAdapter):
        if adapter:
            raise ConfigError(f"{type(encoder).__name__} has no adapter {adapter!r}, nor any")
        return NodeFeatures()
    moving = encoder.config.pretraining_trains
    trained = [name for name in encoder.names if {"adapters", f"adapters.{name}"} & set(moving)]
    adapters = [adapter] if adapter else trained
    if len(adapters) != 1 or adapters[0] not in encoder.names:
        raise ConfigError(
            f"the objective's adapter is {adapter!r}, of {encoder.names} these are trained: "
            f"{trained}; name one in its options, or train one alone (train_adapter)"
        )
    width = encoder.host.config.hidden_size
    return AdapterFeatures(adapter=adapters[0], width=width, alone=alone)


def keep_initialisation(module: nn.Module) -> None:
    """Keep torch's own initialisation, as the released heads do."""
    for inner in module.modules():
        inner._is_hf_initialized = True  # type: ignore[assignment]
