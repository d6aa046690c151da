"""What the networks of linking share: a host's first layers, trained for minutes."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from kept.errors import ConfigError
from kept.hosts import first_layers, layers, require_bert_layers, word_table


def cut(host: PreTrainedModel, n_layers: int) -> None:
    """Keep `n_layers` of a host, in place, and its embeddings as they are.

    Embeddings learn nothing from a few thousand examples. Raises `ConfigError` for layers that the
    host does not have, `HostError` for a family whose layers are not like BERT's.
    """
    require_bert_layers(host, "a network of the linker")
    if not 1 <= n_layers <= len(layers(host)):
        raise ConfigError(
            f"n_layers is {n_layers}; this host has {len(layers(host))}, give 1 or more of them"
        )
    first_layers(host, n_layers)
    host.embeddings.requires_grad_(False)


def embeddings_hash(host: PreTrainedModel) -> str:
    """SHA-256 of the word vectors of a host."""
    table = word_table(host).weight.detach().contiguous()
    return hashlib.sha256(table.flatten().view(torch.uint8).numpy().data).hexdigest()


def warmed_up(optimiser: torch.optim.Optimizer, n_steps: int, share: float) -> LambdaLR:
    """A rate that rises over a share of the steps and falls to 0, linearly (Devlin et al. 2019)."""
    warm = max(1, int(share * n_steps))
    return LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (n_steps - step) / max(1, n_steps - warm))
    )


class FirstPosition(nn.Module):
    """A host's layer, run for the first position alone: the others are its keys and values.

    The same states as the layer's own, up to rounding, for a sixth of the work. The layer has the
    parts of BERT's (`cut` sees to it).
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(
        self, states: Tensor, mask: Tensor | None = None, *_: object, **__: object
    ) -> Tensor:
        """States `[batch 1 width]` from `[batch node width]`."""
        layer: Any = self.layer
        attention = layer.attention.self
        heads = (attention.num_attention_heads, attention.attention_head_size)
        query, key, value = (
            part(each).unflatten(2, heads).transpose(1, 2)
            for part, each in (
                (attention.query, states[:, :1]),
                (attention.key, states),
                (attention.value, states),
            )
        )
        first_column = None if mask is None else mask[:, :, :1]
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=first_column)
        attended = layer.attention.output(mixed.transpose(1, 2).flatten(2), states[:, :1])
        result: Tensor = layer.feed_forward_chunk(attended)
        return result
