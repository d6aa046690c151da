"""What the networks of linking share: a host's first layers, trained for minutes."""

from __future__ import annotations

import hashlib

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel

from kept.errors import ConfigError
from kept.hosts import layers, word_table


def cut(host: PreTrainedModel, n_layers: int) -> None:
    """Keep `n_layers` of a host, in place, and its embeddings as they are.

    Embeddings learn nothing from a few thousand examples. Raises `ConfigError` for layers that the
    host does not have.
    """
    if not 1 <= n_layers <= len(layers(host)):
        raise ConfigError(
            f"n_layers is {n_layers}; this host has {len(layers(host))}, give 1 or more of them"
        )
    del layers(host)[n_layers:]
    host.config.num_hidden_layers = n_layers
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
