"""The adapter of K-Adapter (Wang et al. 2020, section 3.1).

Axis legend: batch, node, width (the host's), inner (the adapter's own).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import BertConfig, PreTrainedModel
from transformers.models.bert.modeling_bert import BertLayer

from kept.batches import Visibility
from kept.errors import ConfigError
from kept.options import require_fields

PROJECTION_STD = 0.0002
MOST, MOST_BLOCKS = 100_000, 1000
"""The largest width, and the most layers of all blocks together, that an adapter may have."""


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """Sizes of one adapter and where it comes from; raises `ConfigError` naming every fault.

    `layers`: which states of the host each block reads, 0 = embeddings, i = layer i; any order, a
    state may be read twice. `width`, `n_layers`, `n_heads`, `intermediate`: of the small
    Transformer inside each block. `skip` s > 1: after every s-th block, the state that block c / s
    (counted from 0) left is added once more (released code; 0 = never).
    `graph_hash`: content hash of the graph that it was trained on ("" = none), `trained_on`: that
    data in words.
    """

    layers: Sequence[int]
    width: int
    n_layers: int = 2
    n_heads: int
    intermediate: int
    skip: int = 0
    dropout: float = 0.1
    epsilon: float = 1e-5
    graph_hash: str = ""
    trained_on: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        for name in ("dropout", "epsilon"):
            object.__setattr__(self, name, float(getattr(self, name)))
        faults = []
        if not self.layers or min(self.layers) < 0:
            faults.append(f"layers {self.layers}: one state of the host or more, from 0")
        for name in ("width", "n_layers", "n_heads", "intermediate"):
            if not 1 <= getattr(self, name) <= MOST:
                faults.append(f"{name} {getattr(self, name)}: from 1 to {MOST:,}")
        if max(self.layers, default=0) > MOST or len(self.layers) * self.n_layers > MOST_BLOCKS:
            faults.append(f"{len(self.layers)} layers of {self.n_layers}: {MOST_BLOCKS:,} at most")
        if not 0 <= self.dropout <= 1:
            faults.append(f"dropout {self.dropout}: a share from 0 to 1")
        if not 0 <= self.epsilon <= 1:
            faults.append(f"epsilon {self.epsilon}: from 0 to 1")
        if self.n_heads > 0 and self.width % self.n_heads:
            faults.append(f"width {self.width}: a multiple of n_heads {self.n_heads}")
        if self.skip == 1 or self.skip < 0:
            faults.append(f"skip {self.skip}: 0 or from 2; with 1 a block would need the next one")
        if faults:
            raise ConfigError("AdapterOptions: " + "; ".join(faults))

    @classmethod
    def read(cls, values: Mapping[str, Any], host: Any) -> AdapterOptions:
        """`values` over the defaults for a host with this configuration.

        The defaults have the proportions of the paper's adapters on RoBERTa-large: the embeddings,
        the middle and the last layer but one; three quarters of the host's heads and width.
        Raises `ConfigError` for an unknown field, or a state that the host does not have.
        """
        require_fields(cls, values, "an adapter")
        n = host.num_hidden_layers
        n_heads = max(1, host.num_attention_heads * 3 // 4)
        width = n_heads * (host.hidden_size // host.num_attention_heads)
        layers = tuple(dict.fromkeys((0, max(0, n // 2 - 1), n - 1)))
        defaults = {
            "layers": layers,
            "width": width,
            "n_heads": n_heads,
            "intermediate": 4 * values.get("width", width),
        }
        options = cls(**{**defaults, **values})
        if max(options.layers) > n:
            raise ConfigError(f"layers {options.layers}: the host has states 0 to {n}")
        return options


class AdapterStates(NamedTuple):
    """States of one block: its input, `down`, the inner Transformer's output, its output."""

    input: Tensor
    down: Tensor
    inner: Tensor
    output: Tensor


class AdapterBlock(nn.Module):
    """Down to the adapter's width, a small post-LN Transformer, up again, plus its own input.

    The Transformer keeps torch's own initialisation, as the released code does; the projections
    start so near 0 that a new block returns its input.
    """

    def __init__(self, *, host_width: int, inner: BertConfig) -> None:
        super().__init__()
        self.down_project = nn.Linear(host_width, inner.hidden_size)
        self.layers = nn.ModuleList(BertLayer(inner) for _ in range(inner.num_hidden_layers))
        self.up_project = nn.Linear(inner.hidden_size, host_width)
        for projection in (self.down_project, self.up_project):
            nn.init.normal_(projection.weight, std=PROJECTION_STD)
            nn.init.zeros_(projection.bias)

    def forward(self, states: Float[Tensor, "batch node width"], mask: Tensor) -> AdapterStates:
        """`mask`: in the form of the inner attention, see `Visibility.attention`."""
        down = inner = self.down_project(states)
        for layer in self.layers:
            inner = layer(inner, mask)
        return AdapterStates(states, down, inner, states + self.up_project(inner))


class Adapter(nn.Module):
    """Blocks that each read one state of the host plus the output of the block before.

    Section 3.1: "the adapter layers do not change the host"; nothing flows back into it. There is
    no activation around the projections and no LayerNorm at the end (released code).
    """

    def __init__(self, options: AdapterOptions, *, host_width: int, attention: str) -> None:
        super().__init__()
        self.options = options
        self.inner = BertConfig(
            hidden_size=options.width,
            num_hidden_layers=options.n_layers,
            num_attention_heads=options.n_heads,
            intermediate_size=options.intermediate,
            hidden_dropout_prob=options.dropout,
            attention_probs_dropout_prob=options.dropout,
            layer_norm_eps=options.epsilon,
            attn_implementation=attention,
        )
        self.blocks = nn.ModuleList(
            AdapterBlock(host_width=host_width, inner=self.inner) for _ in options.layers
        )
        for module in self.modules():
            module._is_hf_initialized = True  # type: ignore[assignment]

    @classmethod
    def of_host(cls, host: PreTrainedModel, options: AdapterOptions) -> Adapter:
        """A new adapter of the host's sizes."""
        config = host.config
        return cls(options, host_width=config.hidden_size, attention=config._attn_implementation)

    def by(self, attention: str) -> Adapter:
        """Return itself, with the inner attention of the host, "sdpa" or "eager"."""
        if self.inner._attn_implementation != attention:
            self.inner._attn_implementation = attention
        return self

    def blockwise(
        self, hidden_states: Sequence[Float[Tensor, "batch node width"]], visibility: Visibility
    ) -> list[AdapterStates]:
        """Return the states of every block; the output of the last is after `skip` additions."""
        kind, dtype = self.inner._attn_implementation, hidden_states[0].dtype
        mask = visibility.attention(kind, dtype)
        state = torch.zeros_like(hidden_states[0])
        outputs: list[AdapterStates] = []
        for count, (layer, block) in enumerate(
            zip(self.options.layers, self.blocks, strict=True), start=1
        ):
            outputs.append(block(hidden_states[layer] + state, mask))
            state = outputs[-1].output
            if self.options.skip and count % self.options.skip == 0:
                state = state + outputs[count // self.options.skip].output
        return [*outputs[:-1], outputs[-1]._replace(output=state)]

    def forward(
        self, hidden_states: Sequence[Float[Tensor, "batch node width"]], visibility: Visibility
    ) -> Float[Tensor, "batch node width"]:
        """The last block's state. `hidden_states`: all of the host's, embeddings first."""
        return self.blockwise(hidden_states, visibility)[-1].output
