"""The host's own vectors of nodes that are all word pieces, whatever they name."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.batches.host_copies import on_host
from kept.errors import BatchError


def piece_vectors(
    host: PreTrainedModel, batch: KnowledgeBatch
) -> Float[Tensor, "batch node embedding"]:
    """The host's embedding of every node; raises `BatchError` for a piece that it does not have."""
    words = hosts.word_table(host)
    checks = not torch.compiler.is_compiling()
    if checks and (highest := int(on_host(batch.node_ids).max())) >= words.num_embeddings:
        raise BatchError(
            f"word piece {highest} is beyond the host's "
            f"{words.num_embeddings}; the batch was made with another tokenizer or view"
        )
    return words(batch.node_ids)
