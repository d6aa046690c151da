"""What the networks of linking share: a host's first layers, trained for minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from kept.errors import ConfigError
from kept.hosts import first_layers, layers, require_bert_layers, word_table

Example = TypeVar("Example")


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


def learn(
    network: Any,
    new_parts: Iterable[nn.Parameter],
    settings: Any,
    batches_of: Callable[[int], Sequence[list[Example]]],
    loss_of: Callable[[list[Example]], Tensor],
) -> Iterator[float]:
    """Train `network` for an epoch at a time, and give the mean loss of each.

    AdamW with a linear decay after a warm-up (Devlin et al. 2019); `network.host` learns slower
    than `new_parts`. `settings` have the `epochs`, two rates, a weight decay and the share of the
    `warm_up`. `batches_of` has the batches of an epoch, as many in each.
    """
    slow = [each for each in network.host.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(
        [
            {"params": slow, "lr": settings.learning_rate},
            {"params": list(new_parts), "lr": settings.head_learning_rate},
        ],
        weight_decay=settings.weight_decay,
    )
    schedule = None
    for epoch in range(settings.epochs):
        batches = batches_of(epoch)
        if schedule is None:
            schedule = warmed_up(optimiser, settings.epochs * len(batches), settings.warm_up)
        network.train()
        network.host.eval()  # its own dropout costs a fifth of the time
        total, n = 0.0, 0
        for batch in batches:
            loss = loss_of(batch)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total, n = total + loss.item() * len(batch), n + len(batch)
        yield total / n


def batches_by_length(
    examples: Sequence[Example],
    lengths: Sequence[int],
    size: int,
    draw: np.random.Generator,
    *,
    jitter: float,
) -> list[list[Example]]:
    """Return batches of nearly one length, in an order that `draw` gives."""
    order = np.argsort(np.array(lengths) + draw.random(len(lengths)) * jitter)
    starts = np.arange(0, len(order), size)
    draw.shuffle(starts)
    return [[examples[i] for i in order[at : at + size].tolist()] for at in starts.tolist()]


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
