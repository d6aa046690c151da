"""The mentions of one graph out of a batch, ready for layers that attend to mentions.

Axis legend: batch, node, mention (all graphs), own (mentions of one graph), candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from kept.batches import PAD_ROW, KnowledgeBatch, Visibility
from kept.errors import BatchError


class Mentions(NamedTuple):
    """The mentions of one graph, an empty one last; it stands for "no mention here".

    A node or mention that sees no real mention sees the empty one. So a text without mentions is
    updated as the original updates a row of padded spans, whatever it is batched or packed with.
    `places [batch own]` are the mentions' places in the batch (None: their own order).
    """

    spans: Int[Tensor, "batch own 2"]
    candidate_ids: Int[Tensor, "batch own candidate"]
    priors: Float[Tensor, "batch own candidate"]
    nodes_see: Bool[Tensor, "batch node own"]
    mentions_see: Bool[Tensor, "batch own own"]
    places: Int[Tensor, "batch place"] | None


def mentions_of(batch: KnowledgeBatch, graph: int) -> Mentions:
    """The mentions of the graph with this number; padding that is marked as its own stays."""
    n_batch, columns = len(batch), None
    device = batch.node_ids.device
    spans = batch.mention_spans
    ids, priors = batch.candidate_ids, batch.candidate_priors
    if spans is None or ids is None or priors is None:
        spans = torch.zeros(n_batch, 0, 2, dtype=torch.int64, device=device)
        ids = torch.zeros(n_batch, 0, 1, dtype=torch.int64, device=device)
        priors = torch.zeros(n_batch, 0, 1, device=device)
    elif batch.mention_graphs is not None:
        mine = batch.mention_graphs == graph
        n_own = int(mine.sum(1).max()) if mine.numel() else 0
        columns = mine.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :n_own]
        mine = mine.gather(1, columns)[..., None]
        spans, ids, priors = (
            value.gather(1, columns[..., None].expand(-1, -1, value.shape[2])).where(mine, pad)
            for value, pad in ((spans, 0), (ids, PAD_ROW), (priors, 0.0))
        )
    elif graph > 0:
        raise BatchError("mentions of several graphs need mention_graphs as well as mention_spans")
    nodes_see = _seen(batch.visibility, spans)
    starts = spans[..., :1].expand(-1, -1, nodes_see.shape[2])
    mentions_see = _with_empty(nodes_see.gather(1, starts))
    last = mentions_see.new_zeros(n_batch, 1, mentions_see.shape[2])
    last[..., -1] = True
    return Mentions(
        spans=F.pad(spans, (0, 0, 0, 1)),
        candidate_ids=F.pad(ids, (0, 0, 0, 1), value=PAD_ROW),
        priors=F.pad(priors, (0, 0, 0, 1)),
        nodes_see=_with_empty(nodes_see),
        mentions_see=torch.cat([mentions_see, last], dim=1),
        places=columns,
    )


def _seen(visibility: Visibility, spans: Tensor) -> Bool[Tensor, "batch node own"]:
    """Which nodes see a mention: those that see its first and its last node."""
    real = spans[..., 1] > spans[..., 0]
    ends = spans[..., 0], (spans[..., 1] - 1).clamp(min=0)
    first, last = map(visibility.of_keys, ends)
    return first & last & real[:, None]


def _with_empty(sees: Tensor) -> Tensor:
    """One more column, seen where nothing else is."""
    return torch.cat([sees, ~sees.any(2, keepdim=True)], dim=2)
