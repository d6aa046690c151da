"""LUKE's heads: a class from the [MASK] entity of a target, of two, or of each of many spans.

Yamada et al. 2020, "LUKE" (EMNLP), sections 4.1 to 4.3: typing reads the entity of one target,
relations those of two side by side, recognition of names each span's first word, last word and
entity.

Axis legend: batch, target, class, width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.luke import LUKE
from kept.errors import BatchError, ConfigError
from kept.heads.base import Head
from kept.layers.spans import all_there
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class EntitiesOptions:
    """`n_targets` [MASK] entities are read side by side.

    `read`: "entity", the state of each target's [MASK] entity; "span", those of its first and last
    word before it. `each`: every target is scored on its own, `[batch target class]`, however many
    there are. `bias`: of the linear layer; the paper's has none for pairs.
    """

    n_targets: int = 1
    read: str = "entity"
    each: bool = False
    bias: bool = True
    dropout: float = 0.1

    def __post_init__(self) -> None:
        faults = []
        if self.n_targets < 1:
            faults.append(f"n_targets {self.n_targets}: 1 or more")
        if self.read not in ("entity", "span"):
            faults.append(f"read {self.read!r}: 'entity' or 'span'")
        if faults:
            raise ConfigError("head entities: " + "; ".join(faults))


class EntitiesHead(Head):
    """Dropout and one linear layer over the states of the targets' [MASK] entities."""

    def __init__(self, *, width: int, n_classes: int, options: EntitiesOptions) -> None:
        super().__init__()
        self.n_targets, self.read, self.each = options.n_targets, options.read, options.each
        n_states = 3 if options.read == "span" else 1
        n_read = n_states * (1 if options.each else options.n_targets)
        self.dropout = nn.Dropout(options.dropout)
        self.classes = nn.Linear(n_read * width, n_classes, bias=options.bias)

    @classmethod
    def for_encoder(
        cls, encoder: KnowledgeEncoder, n_classes: int, options: EntitiesOptions
    ) -> Self:
        """Raises `ConfigError` for an encoder without [MASK] entities for targets."""
        if not isinstance(encoder, LUKE) or not encoder.config.mask_targets:
            raise ConfigError(
                f"{type(encoder).__name__} has no [MASK] entity for a target, which the head "
                "entities reads; take the method luke with mask_targets, or the head targets"
            )
        return cls(width=encoder.host.config.hidden_size, n_classes=n_classes, options=options)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> Tensor:
        """`[batch class]`, or with `each` `[batch target class]`, padded targets too.

        Raises `BatchError` for another number of targets.
        """
        states, spans = output.target_states, batch.target_spans
        if states is None or spans is None:
            raise BatchError("the head entities reads target_spans, and a sample has none")
        if not self.each and not all_there(spans):
            raise BatchError("the head entities reads target_spans, and a sample has none")
        if not self.each and states.shape[1] != self.n_targets:
            raise BatchError(
                f"the batch has {states.shape[1]} target(s) a text, this head reads "
                f"{self.n_targets}"
            )
        if self.read == "span":
            states = torch.cat([*_ends(output.node_states, batch), states], dim=2)
        states = states if self.each else states.flatten(1)
        scores: Tensor = self.classes(self.dropout(states))
        return scores


def _ends(
    states: Float[Tensor, "batch node width"], batch: KnowledgeBatch
) -> list[Float[Tensor, "batch target width"]]:
    """The states of each target's first and last word."""
    assert batch.target_spans is not None
    first, stop = batch.target_spans.unbind(2)
    return [
        states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))
        for places in (first, (stop - 1).clamp(min=0))
    ]
