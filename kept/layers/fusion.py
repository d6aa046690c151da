"""The entity half of ERNIE's fusion layers (Zhang et al. 2019, section 3.3, equations 4 to 6).

The word half is a layer of the host; what stands here is the part that the host does not have.

Axis legend: batch, node, width (of entity vectors), inner (the host's feed-forward width).
"""

from __future__ import annotations

from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F


class NoAttention(nn.Module):
    """The entity vectors as they came: what a layer that first meets them does."""

    def forward(
        self,
        entities: Float[Tensor, "batch node width"],
        slot_mask: Shaped[Tensor, "batch 1 node node"],
    ) -> Float[Tensor, "batch node width"]:
        """`entities` themselves."""
        return entities


class EntityAttention(nn.Module):
    """Multi-head self-attention over entity slots with its own residual and LayerNorm."""

    def __init__(
        self, *, width: int, heads: int, epsilon: float, dropout: float, attention_dropout: float
    ) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.dense = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(width, eps=epsilon)

    def forward(
        self,
        entities: Float[Tensor, "batch node width"],
        slot_mask: Shaped[Tensor, "batch 1 node node"],
    ) -> Float[Tensor, "batch node width"]:
        """`slot_mask[b, 0, i, j]`: slot i may read slot j; no row of it may be empty.

        Numbers instead of truth values are added to the scores.
        """
        query, key, value = (
            part(entities).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        context = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=slot_mask,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        joined = self.dense(context.transpose(1, 2).flatten(2))
        return self.layer_norm(self.dropout(joined) + entities)


class EntityFusion(nn.Module):
    """Entity slots before, inside and after the one hidden vector that both streams share.

    The order is `attend`, then `inner` (added to the words' share before the activation), then
    `finish` with the activated sum.
    """

    def __init__(
        self,
        *,
        width: int,
        inner: int,
        attention: NoAttention | EntityAttention,
        epsilon: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.inner = nn.Linear(width, inner)
        self.output = EntityOutput(width=width, inner=inner, epsilon=epsilon, dropout=dropout)

    def attend(
        self,
        entities: Float[Tensor, "batch node width"],
        share: Shaped[Tensor, "batch node"],
        slot_mask: Shaped[Tensor, "batch 1 node node"],
    ) -> Float[Tensor, "batch node width"]:
        """Slots after their attention, times `share`: 0 or False where there is none."""
        attended: Tensor = self.attention(entities, slot_mask)
        return attended * share.unsqueeze(-1)


class EntityOutput(nn.Module):
    """Linear, dropout, residual, LayerNorm: from the shared hidden vector back to the slots."""

    def __init__(self, *, width: int, inner: int, epsilon: float, dropout: float) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(width, eps=epsilon)

    def forward(
        self, hidden: Float[Tensor, "batch node inner"], entities: Float[Tensor, "batch node width"]
    ) -> Float[Tensor, "batch node width"]:
        """The next layer's slots; those without an entity are not zero (as in the paper's code)."""
        return self.layer_norm(self.dropout(self.dense(hidden)) + entities)
