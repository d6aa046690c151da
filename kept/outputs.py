"""`KnowledgeOutput`: what every encoder returns.

Axis legend: batch, node, mention, candidate, width, entity_width, layer, class.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class KnowledgeOutput:
    """States of one forward pass; `losses` are named, unweighted scalars.

    `hidden_states` holds the embedding output and every layer, first to last;
    `node_states` is the last of them; `pooled_state` is the state of the first node.
    """

    node_states: Float[Tensor, "batch node width"]
    hidden_states: tuple[Float[Tensor, "batch node width"], ...] = ()
    pooled_state: Float[Tensor, "batch width"] | None = None
    entity_states: Float[Tensor, "batch node entity_width"] | None = None
    mention_states: Float[Tensor, "batch mention width"] | None = None
    linking_scores: Float[Tensor, "batch mention candidate"] | None = None
    class_logits: Float[Tensor, "batch class"] | Float[Tensor, "batch node class"] | None = None
    losses: dict[str, Float[Tensor, ""]] = field(default_factory=dict)
