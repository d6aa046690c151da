"""LUKE's objective beside masked words: name the entity behind a [MASK] (`masked_entities`).

Yamada et al. 2020, "LUKE" (EMNLP), section 3.2: 15 % of the entities, always replaced by [MASK];
the state goes through dense, gelu and LayerNorm to the entities' width and is compared with the
entity table, which is tied. Where we differ from the released code: it can also name the page's
entity from the first word; we do not.

Axis legend: batch, node, chosen (nodes that are scored), width, entity, row (of the entity table).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch
from kept.batches.host_copies import at
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.luke import LUKE
from kept.errors import ConfigError
from kept.graphs.graph import NodeKind
from kept.host_families import layer_norm_eps
from kept.layers.means import mean_of
from kept.layers.part_table import PartTable
from kept.layers.rows import RowTable
from kept.layers.transform import Transform
from kept.objectives.base import Objective, Preparation, PreparationContext, labelled_nodes
from kept.objectives.masked_nodes import corrected, entity_slots
from kept.objectives.masking import EntitySampler
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class MaskedEntitiesOptions:
    """`probability`: the share of a text's entities that are masked, at least one.

    Scores are over all rows of the table. With `shared_negatives` they are over so many entities
    that are sampled for the whole batch instead, corrected for their chance (see `MaskedNodes`):
    for graphs of millions.
    """

    probability: float = 0.15
    shared_negatives: int | None = None

    def __post_init__(self) -> None:
        faults = []
        if not 0 < self.probability <= 1:
            faults.append(f"probability {self.probability}: above 0, to 1")
        if self.shared_negatives is not None and self.shared_negatives < 1:
            faults.append(f"shared_negatives {self.shared_negatives}: 1 or more, or none")
        if faults:
            raise ConfigError("objective masked_entities: " + "; ".join(faults))


class MaskedEntitiesPreparation(Preparation):
    """Masks entities of a sample anew in every epoch, at least one where there is any."""

    remedy = "no text has a link into the graph; link the texts with the graph of the run"

    def __init__(self, options: MaskedEntitiesOptions, sampler: EntitySampler | None) -> None:
        self.options, self.sampler = options, sampler

    @classmethod
    def of(cls, options: MaskedEntitiesOptions, world: PreparationContext) -> Self:
        counts = world.entity_counts
        return cls(options, None if options.shared_negatives is None else EntitySampler(counts))

    @property
    def fingerprint(self) -> str:
        sampled = b"" if self.sampler is None else self.sampler.probabilities.numpy().tobytes()
        return f"{self.options} {hashlib.sha256(sampled).hexdigest()}"

    def share_read(self, texts: Sequence[NDArray[np.int64]]) -> float | None:
        """The share of texts with an entity of the graph."""
        return float(np.mean([bool((ids >= 0).any()) for ids in texts])) if texts else None

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        ids = batch.node_ids[0].clone()
        labels = torch.full_like(ids, IGNORE)
        if batch.node_labels is not None:
            labels = batch.node_labels[0].clone()
        is_free = (batch.node_kinds[0] == NodeKind.ENTITY) & (ids >= N_SPECIAL_ROWS)
        free = (is_free & (labels == IGNORE)).nonzero()[:, 0]
        if len(free):
            quota = max(1, round(len(free) * self.options.probability))
            chosen = free[torch.from_numpy(draws.permutation(len(free))[:quota])]
            labels[chosen] = ids[chosen]
            ids[chosen] = MASK_ROW
        return batch.replace(node_ids=ids[None], node_labels=labels[None])

    def complete(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        """With the sampled entities, where the loss ranks a sample."""
        if self.sampler is None or self.options.shared_negatives is None:
            return batch
        assert batch.node_labels is not None
        golds = batch.node_labels[batch.node_kinds == NodeKind.ENTITY]
        sampled, shares = self.sampler.shared(golds, self.options.shared_negatives, draws)
        return batch.replace(sampled_entities=sampled, sampled_shares=shares)


class MaskedEntities(Objective):
    """Cross entropy of masked entities against the encoder's own table, tied, with a bias.

    Over all rows, special ones are among the wrong answers, as in the released code: that of a
    second target, too, where the encoder has one.
    """

    def __init__(
        self,
        *,
        width: int,
        entity_width: int,
        n_rows: int,
        epsilon: float,
        has_second: bool = False,
    ) -> None:
        super().__init__()
        self.transform = Transform(width=width, embedding=entity_width, epsilon=epsilon)
        self.bias = nn.Parameter(torch.zeros(n_rows))
        self.second_bias = nn.Parameter(torch.zeros(1)) if has_second else None

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: MaskedEntitiesOptions) -> Self:
        """Raises `ConfigError` for another encoder, and for a table that is not read as a whole."""
        if not isinstance(encoder, LUKE):
            raise ConfigError(
                f"masked_entities asks for entities behind the words; {type(encoder).__name__} has "
                "none: take the method luke, or masked_nodes with colake"
            )
        table, host = encoder.entity_vectors, encoder.host.config
        if options.shared_negatives is None and (table.sparse or isinstance(table, PartTable)):
            raise ConfigError(
                "masked_entities over all entities needs the whole table and dense gradients; give "
                "shared_negatives with sparse_entities, or where processes share the table"
            )
        return cls(
            width=host.hidden_size, entity_width=table.embedding_dim,
            n_rows=table.num_embeddings, epsilon=layer_norm_eps(host),
            has_second=encoder.second_mask is not None,
        )  # fmt: skip

    def row_tables(self) -> tuple[RowTable, ...]:
        """The bias of each entity."""
        return (RowTable(name="bias", of="entity"),)

    def logits(
        self,
        states: Float[Tensor, "*chosen width"],
        vectors: Float[Tensor, "row entity_width"],
        rows: Int[Tensor, " row"] | None = None,
    ) -> Float[Tensor, "*chosen row"]:
        """Scores of the entities with these `vectors`; `rows` are theirs, None: the whole table."""
        bias = self.bias if rows is None else self.bias[rows]
        return F.linear(self.transform(states), vectors, bias)

    def all_logits(
        self, states: Float[Tensor, "*chosen width"], encoder: LUKE
    ) -> Float[Tensor, "*chosen row"]:
        """Scores of all rows of the table, then of a second target's [MASK], if there is one."""
        logits = self.logits(states, encoder.entity_vectors.weight)
        if self.second_bias is None or encoder.second_mask is None:
            return logits
        second = F.linear(self.transform(states), encoder.second_mask[None], self.second_bias)
        return torch.cat([logits, second], dim=-1)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """`masked_entities`: the mean over masked entities; 0 where labels exist but none there."""
        if batch.node_labels is None:
            return {}
        assert isinstance(encoder, LUKE)
        chosen = labelled_nodes(batch, NodeKind.ENTITY)
        states, labels = at(output.node_states, chosen), at(batch.node_labels, chosen)
        sampled = batch.sampled_entities
        if sampled is None:
            logits = self.all_logits(states, encoder)
        else:
            logits = self.logits(states, encoder.entity_vectors(sampled), sampled)
            labels = entity_slots(labels, sampled)
            logits = corrected(logits, labels, batch.sampled_shares)
        total = F.cross_entropy(logits, labels, reduction="sum")
        return {"masked_entities": mean_of(total, len(labels))}
