"""KnowBERT's linker: mentions and their candidates into scores and weighted entity vectors.

Peters et al. 2019, "Knowledge Enhanced Contextual Word Representations" (EMNLP), sections 3.2-3.4.

Axis legend: batch, node, mention, candidate, hidden (width of the host), width (of the entities).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches import PAD_ROW, UNKNOWN_ROW
from kept.layers.part_table import entity_table
from kept.layers.spans import FAR, SpanLayer, SpanPooling


class EntityTable(nn.Module):
    """Frozen entity vectors, one per row."""

    def __init__(self, *, n_rows: int, width: int) -> None:
        super().__init__()
        self.vectors = entity_table(n_rows, width)

    def forward(self, rows: Int[Tensor, "*row"]) -> Float[Tensor, "*row width"]:
        return self.vectors(rows)


class PartEntityTable(nn.Module):
    """Frozen entity vectors beside a learned vector of the part of speech, projected to one width.

    For WordNet. `parts [row]` says which part each entity has. With `learned_null`, row UNKNOWN_ROW
    is a learned vector in place of the projection.
    """

    def __init__(
        self,
        *,
        n_rows: int,
        vector_width: int,
        n_parts: int,
        part_width: int,
        width: int,
        learned_null: bool = False,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.vectors = entity_table(n_rows, vector_width)
        self.part_vectors = nn.Embedding(n_parts, part_width)
        self.projection = nn.Linear(vector_width + part_width, width)
        self.register_buffer("parts", torch.zeros(n_rows, dtype=torch.int64))
        self.parts: Tensor
        self.null = nn.Parameter(torch.zeros(width)) if learned_null else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Int[Tensor, "*row"]) -> Float[Tensor, "*row width"]:
        parts = self.part_vectors(self.parts[rows])
        features = torch.cat([self.vectors(rows), parts], dim=-1)
        vectors: Tensor = self.dropout(self.projection(features))
        if self.null is not None:
            vectors = torch.where((rows == UNKNOWN_ROW)[..., None], self.null, vectors)
        return vectors


class CandidateScorer(nn.Module):
    """Scores of candidates from similarity and prior (equation 4).

    `w2 relu(w1 [dot(mention, entity) / sqrt(width), prior] + b1) + b2`; the prior is not a
    logarithm.
    """

    def __init__(self, *, inner: int) -> None:
        super().__init__()
        self.inner = nn.Linear(2, inner)
        self.outer = nn.Linear(inner, 1)

    def forward(
        self,
        mentions: Float[Tensor, "batch mention width"],
        entities: Float[Tensor, "batch mention candidate width"],
        priors: Float[Tensor, "batch mention candidate"],
    ) -> Float[Tensor, "batch mention candidate"]:
        similarity = (entities @ mentions[..., None]).squeeze(3) / math.sqrt(mentions.shape[2])
        features = torch.stack([similarity, priors.to(similarity.dtype)], dim=3)
        return self.outer(F.relu(self.inner(features))).squeeze(3)


class LinkedMentions(NamedTuple):
    """What a linker found: projected nodes, mention vectors, scores and weights of candidates.

    `entities` are the weighted entity vectors. Padded candidates have the score `FAR`.
    """

    projected: Float[Tensor, "batch node width"]
    mentions: Float[Tensor, "batch mention width"]
    scores: Float[Tensor, "batch mention candidate"]
    weights: Float[Tensor, "batch mention candidate"]
    entities: Float[Tensor, "batch mention width"]


class EntityLinker(nn.Module):
    """Mention vectors, their interaction, and the choice among candidates.

    With a `threshold`, candidates below it do not count, and a mention without any above it gets
    the NULL entity's vector, as the table has it (not normalised, as in the released code). Without
    one every mention is spread over its candidates.
    """

    def __init__(
        self,
        *,
        hidden: int,
        width: int,
        entities: EntityTable | PartEntityTable,
        n_layers: int,
        n_heads: int,
        feed_forward: int,
        scorer_width: int,
        threshold: float | None,
        soft: bool = False,
    ) -> None:
        super().__init__()
        self.threshold, self.soft = threshold, soft
        self.projection = nn.Linear(hidden, width)
        self.pooling = SpanPooling(width=width)
        self.mention_norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            SpanLayer(width=width, n_heads=n_heads, feed_forward=feed_forward)
            for _ in range(n_layers)
        )
        self.entities = entities
        self.entity_norm = nn.LayerNorm(width)
        self.scorer = CandidateScorer(inner=scorer_width)

    def forward(
        self,
        states: Float[Tensor, "batch node hidden"],
        spans: Int[Tensor, "batch mention 2"],
        candidate_ids: Int[Tensor, "batch mention candidate"],
        priors: Float[Tensor, "batch mention candidate"],
        sees: Bool[Tensor, "batch mention mention"],
    ) -> LinkedMentions:
        """Link every mention; `sees` says which mentions see one another."""
        projected = self.projection(states)
        mentions = self.mention_norm(self.pooling(projected, spans))
        for layer in self.layers:
            mentions = layer(mentions, mentions, sees)
        entities = self.entity_norm(self.entities(candidate_ids))
        scores = self.scorer(mentions, entities, priors)
        scores = scores.masked_fill(candidate_ids == PAD_ROW, FAR)
        weights, best = self._weigh(scores, entities)
        return LinkedMentions(projected, mentions, scores, weights, best)

    def _weigh(
        self,
        scores: Float[Tensor, "batch mention candidate"],
        entities: Float[Tensor, "batch mention candidate width"],
    ) -> tuple[Float[Tensor, "batch mention candidate"], Float[Tensor, "batch mention width"]]:
        if self.threshold is None:
            weights = scores.softmax(2)
            return weights, (weights[:, :, None] @ entities).squeeze(2)
        if self.soft:
            return self._weigh_with_null(scores, entities)
        low = scores < self.threshold
        weights = scores.masked_fill(low, FAR).softmax(2)
        mixed = (weights[:, :, None] @ entities).squeeze(2)
        null = self.entities(torch.full((), UNKNOWN_ROW, device=scores.device))
        return weights, torch.where(low.all(2)[..., None], null.to(mixed.dtype), mixed)

    def _weigh_with_null(
        self,
        scores: Float[Tensor, "batch mention candidate"],
        entities: Float[Tensor, "batch mention candidate width"],
    ) -> tuple[Float[Tensor, "batch mention candidate"], Float[Tensor, "batch mention width"]]:
        """NULL as one more candidate, whose score is the threshold; its weight is what remains."""
        assert self.threshold is not None
        level = torch.full_like(scores[..., :1], self.threshold)
        weights = torch.cat([scores, level], dim=2).softmax(2)
        null = self.entities(torch.full((), UNKNOWN_ROW, device=scores.device)).to(entities.dtype)
        mixed = (weights[..., None, :-1] @ entities).squeeze(2) + weights[..., -1:] * null
        return weights[..., :-1], mixed


class Recontextualisation(nn.Module):
    """Nodes attend to the mentions and their entities (section 3.5): `LN(states + W3 H + b3)`."""

    def __init__(
        self, *, hidden: int, width: int, n_heads: int, feed_forward: int, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.mention_norm = nn.LayerNorm(width)
        self.attention = SpanLayer(
            width=width, n_heads=n_heads, feed_forward=feed_forward, dropout=dropout
        )
        self.projection = nn.Linear(width, hidden)
        self.output_norm = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        states: Float[Tensor, "batch node hidden"],
        linked: LinkedMentions,
        sees: Bool[Tensor, "batch node mention"],
    ) -> Float[Tensor, "batch node hidden"]:
        """The states with knowledge; `sees` says which mentions a node attends to."""
        mentions = self.mention_norm(linked.mentions + self.dropout(linked.entities))
        attended = self.attention(linked.projected, mentions, sees)
        return self.output_norm(states + self.dropout(self.projection(attended)))


@torch.no_grad()
def start_as_inverse(back: nn.Linear, forth: nn.Linear, *, original: bool = False) -> None:
    """Set `back` so that it undoes `forth`: the pseudo-inverse P of its matrix, bias `-P b`.

    `original` is the released code: `inv(W^T W) W^T`, which is rounding noise where the width is
    below the host's (W^T W is singular), and the bias without its sign.
    """
    weight, bias = forth.weight.double(), forth.bias.double()
    if original:
        single = forth.weight.float()
        inverse = (torch.linalg.inv(single.T @ single) @ single.T).double()
        bias = -bias
    else:
        inverse = torch.linalg.pinv(weight)
    back.weight.copy_(inverse)
    back.bias.copy_(-inverse @ bias)
