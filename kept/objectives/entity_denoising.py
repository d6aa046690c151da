"""ERNIE's objective: name the entity of a word, with entities partly corrupted (dEA).

Zhang et al. 2019 (ACL), section 3.4, equation 6: the state of an aligned word is turned into an
entity vector and compared with the entities of the batch.

Axis legend: batch, node, chosen (nodes that are scored), width, entity_width, candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from kept.batches import IGNORE, N_SPECIAL_ROWS, PAD_ROW, KnowledgeBatch
from kept.batches.host_copies import at, on_both, places
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.ernie import ERNIE
from kept.errors import BatchError, ConfigError
from kept.host_families import layer_norm_eps
from kept.layers.means import mean_of
from kept.layers.transform import Transform
from kept.objectives.base import Objective, Preparation, PreparationContext
from kept.objectives.masked_nodes import entity_slots
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class EntityDenoisingOptions:
    """Shares of aligned entities that are replaced and removed; the rest is kept.

    `zero_candidate` adds the zero vector ("no entity") as a candidate, as in the released code,
    where it is never right and only adds a logit of 0.
    """

    replace_share: float = 0.05
    remove_share: float = 0.15
    zero_candidate: bool = False

    def __post_init__(self) -> None:
        shares = (self.replace_share, self.remove_share)
        if min(shares) < 0 or sum(shares) > 1:
            raise ConfigError(
                f"replace_share {shares[0]}, remove_share {shares[1]}: from 0, together at most 1"
            )


class EntityDenoisingPreparation(Preparation):
    """Labels every aligned word with its entity, then corrupts the encoder's input.

    Both need the whole batch: replacements and candidates are its entities before corruption.
    """

    def __init__(self, options: EntityDenoisingOptions) -> None:
        self.options = options

    @classmethod
    def of(cls, options: EntityDenoisingOptions, world: PreparationContext) -> Self:
        return cls(options)

    @property
    def fingerprint(self) -> str:
        return str(self.options)

    def complete(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        """`entity_labels`, `sampled_entities` and corrupted `entity_ids`.

        Two random numbers per aligned word, in order of batch, then node.
        """
        if batch.entity_ids is None:
            raise BatchError("dea needs entity_ids, but the batch has none; use ERNIEView")
        n_aligned = int((batch.entity_ids >= N_SPECIAL_ROWS).sum())
        chances = torch.from_numpy(draws.random((2, n_aligned)))
        return corrupt_entities(batch, chances[0], chances[1], options=self.options)


def corrupt_entities(
    batch: KnowledgeBatch,
    fates: Float[Tensor, " chosen"],
    picks: Float[Tensor, " chosen"],
    *,
    options: EntityDenoisingOptions,
) -> KnowledgeBatch:
    """The policy itself, with numbers from [0, 1) for every aligned word in order of batch, node.

    `fates` decides: replaced, removed or kept. `picks` chooses the replacement uniformly among the
    entities of the batch; it may be the entity itself, as in the released code.
    """
    assert batch.entity_ids is not None
    aligned = batch.entity_ids >= N_SPECIAL_ROWS
    rows = batch.entity_ids[aligned]
    candidates = rows.unique()
    labels = torch.full_like(batch.entity_ids, IGNORE)
    labels[aligned] = rows
    fates, picks = fates.to(rows.device), picks.to(rows.device)
    replaced = fates < options.replace_share
    removed = ~replaced & (fates < options.replace_share + options.remove_share)
    others = candidates[(picks * len(candidates)).long()] if len(rows) else rows
    corrupted = batch.entity_ids.clone()
    corrupted[aligned] = torch.where(replaced, others, rows).masked_fill(removed, PAD_ROW)
    if options.zero_candidate:
        candidates = torch.cat([candidates.new_tensor([PAD_ROW]), candidates])
    return batch.replace(entity_ids=corrupted, entity_labels=labels, sampled_entities=candidates)


class EntityDenoising(Objective):
    """A transform of the word's state, compared with candidate vectors by their dot product.

    Reads the word stream, not the entity stream. Without any label the loss is 0 (NaN in the
    released code). Candidates are `batch.sampled_entities`.
    """

    def __init__(self, *, width: int, entity_width: int, epsilon: float = 1e-12) -> None:
        super().__init__()
        self.transform = Transform(width=width, embedding=entity_width, epsilon=epsilon)

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: EntityDenoisingOptions) -> Self:
        """Heads of the encoder's sizes; raises `ConfigError` unless it has an entity stream."""
        if not isinstance(encoder, ERNIE):
            raise ConfigError(
                f"dea needs aligned entity vectors; {type(encoder).__name__} has none"
            )
        host = encoder.host.config
        return cls(
            width=host.hidden_size,
            entity_width=encoder.config.entity_width,
            epsilon=layer_norm_eps(host),
        )

    def entity_logits(
        self,
        states: Float[Tensor, "*chosen width"],
        candidates: Float[Tensor, "candidate entity_width"],
    ) -> Float[Tensor, "*chosen candidate"]:
        """Scores of the candidates."""
        return F.linear(self.transform(states), candidates)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Mean cross entropy over labelled words, under the name dea.

        Raises `BatchError` when a label is not among the sampled entities.
        """
        if batch.entity_labels is None:
            return {}
        assert isinstance(encoder, ERNIE)
        chosen = places(lambda labels: labels != IGNORE, batch.entity_labels)
        labels: Int[Tensor, " chosen"] = at(batch.entity_labels, chosen)
        slots = entity_slots(labels, batch.sampled_entities)
        sampled = labels if batch.sampled_entities is None else batch.sampled_entities
        vectors = encoder.slots(on_both(lambda rows: rows[None], sampled))[0]
        logits = self.entity_logits(at(output.node_states, chosen), vectors)
        total = F.cross_entropy(logits, slots, reduction="sum")
        return {"dea": mean_of(total, len(slots))}
