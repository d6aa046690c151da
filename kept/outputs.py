"""`KnowledgeOutput`: what every encoder returns.

Axis legend: batch, node, mention, target, candidate, width, entity_width, text_width, layer, class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from kg_loaders.notebook import table


@dataclass(frozen=True, eq=False)
class KnowledgeOutput:
    """States of one forward pass; `losses` are named, unweighted scalars.

    `hidden_states` holds the embedding output and every layer, first to last;
    `node_states` is the last of them; `pooled_state` is the state of the first node;
    `adapter_states` are those of adapters beside the host, by name. `text_vector` is what a method
    says of text and subgraph together, where it says something (QA-GNN, GreaseLM). `target_states`
    are those of what stands for a task's targets beside their words (LUKE's [MASK] entities).
    """

    node_states: Float[Tensor, "batch node width"]
    hidden_states: tuple[Float[Tensor, "batch node width"], ...] = ()
    pooled_state: Float[Tensor, "batch width"] | None = None
    text_vector: Float[Tensor, "batch text_width"] | None = None
    target_states: Float[Tensor, "batch target width"] | None = None
    entity_states: Float[Tensor, "batch node entity_width"] | None = None
    adapter_states: dict[str, Float[Tensor, "batch node width"]] = field(default_factory=dict)
    linking_scores: Float[Tensor, "batch mention candidate"] | None = None
    class_logits: (
        Float[Tensor, "batch class"]
        | Float[Tensor, "batch node class"]
        | Float[Tensor, "batch target class"]
        | None
    ) = None
    losses: dict[str, Float[Tensor, ""]] = field(default_factory=dict)

    @classmethod
    def of(cls, hidden_states: Sequence[Tensor], **others: Any) -> KnowledgeOutput:
        """The output with these `hidden_states`, whose last are the `node_states`."""
        last = hidden_states[-1]
        return cls(last, tuple(hidden_states), pooled_state=last[:, 0], **others)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {shape}" for name, shape in self._shapes())
        return f"KnowledgeOutput({shapes})"

    def _repr_html_(self) -> str:
        rows = self._shapes()
        return table("KnowledgeOutput", ("field", "shape or value"), rows, len(rows))

    def _shapes(self) -> list[tuple[str, str]]:
        """Every field that is there: shapes of tensors, how many layers, values of losses."""
        shapes = []
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Tensor):
                shapes.append((each.name, str(list(value.shape))))
            elif isinstance(value, tuple) and value:
                shapes.append((each.name, f"{len(value)} x {list(value[0].shape)}"))
            elif isinstance(value, dict):
                shapes += [
                    (
                        f"{each.name}[{name!r}]",
                        f"{inner.item():.4g}" if inner.ndim == 0 else str(list(inner.shape)),
                    )
                    for name, inner in value.items()
                ]
        return shapes
