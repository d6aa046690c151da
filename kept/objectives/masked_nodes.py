"""CoLAKE's objective: predict masked words, entities and relations (Sun et al. 2020, section 3.3).

Axis legend: batch, node, chosen (nodes that are scored), width, embedding, word, candidate,
relation (rows of the relation table, special rows first).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from kept import hosts
from kept.batches import MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch
from kept.batches.host_copies import at, moved, on_host
from kept.encoders.base import KnowledgeEncoder
from kept.encoders.colake import CoLAKE
from kept.errors import BatchError, ConfigError
from kept.graphs.graph import NodeKind
from kept.host_families import layer_norm_eps
from kept.layers.means import mean_of
from kept.layers.rows import RowTable
from kept.layers.transform import Transform
from kept.objectives.base import Objective, Preparation, PreparationContext, labelled_nodes
from kept.objectives.masking import EntitySampler, MaskingConfig, mask_nodes
from kept.outputs import KnowledgeOutput


@dataclass(frozen=True, kw_only=True)
class MaskedNodesOptions:
    """Shares of `MaskingConfig`, `n_negatives` for each gold entity, and `empty_loss`.

    With `shared_negatives` so many entities are sampled once for the whole batch instead, and the
    loss estimates that over all entities of the texts' links: a negative's logit is lowered by the
    log of its chance to be sampled (Bengio and Senécal 2008, "Adaptive importance sampling", IEEE
    Transactions on Neural Networks 19(4); Yi et al. 2019, RecSys: logQ). Without it frequent
    entities are negatives more often than others, as published. `empty_loss` is the value of a loss
    without any label: "zero", or "nan" as the released code.
    """

    probability: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    anchors: bool = True
    n_negatives: int = 10
    empty_loss: str = "zero"
    shared_negatives: int | None = None

    def __post_init__(self) -> None:
        if self.empty_loss not in ("zero", "nan"):
            raise ConfigError(f"empty_loss is {self.empty_loss!r}; use 'zero' or 'nan'")
        if self.n_negatives < 1:
            raise ConfigError(f"n_negatives is {self.n_negatives}; use 1 or more")
        if self.shared_negatives is not None and self.shared_negatives < 1:
            raise ConfigError(f"shared_negatives is {self.shared_negatives}; use 1 or more")

    def masking(self, world: PreparationContext) -> MaskingConfig:
        """The whole `MaskingConfig` over the world's vocabularies."""
        tokenizer = world.tokenizer
        if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
            raise ConfigError("masked nodes need a tokenizer with a mask and a padding token")
        return MaskingConfig(
            word_mask_id=tokenizer.mask_token_id,
            n_words=len(tokenizer),
            n_entities=world.graph.n_entities + N_SPECIAL_ROWS,
            n_relations=world.graph.n_relations + N_SPECIAL_ROWS,
            special_word_ids=tuple(sorted(tokenizer.all_special_ids)),
            probability=self.probability,
            mask_share=self.mask_share,
            random_share=self.random_share,
            anchors=self.anchors,
        )


class MaskedNodesPreparation(Preparation):
    """Masks nodes of a sample; samples the candidates of a batch's masked-entity loss."""

    def __init__(
        self,
        masking: MaskingConfig,
        sampler: EntitySampler,
        *,
        n_negatives: int = 10,
        shared_negatives: int | None = None,
    ) -> None:
        self.masking, self.sampler, self.n_negatives = masking, sampler, n_negatives
        self.shared_negatives = shared_negatives

    @classmethod
    def of(cls, options: MaskedNodesOptions, world: PreparationContext) -> Self:
        return cls(
            options.masking(world),
            EntitySampler(world.entity_counts),
            n_negatives=options.n_negatives,
            shared_negatives=options.shared_negatives,
        )

    @property
    def fingerprint(self) -> str:
        probabilities = self.sampler.probabilities.numpy().tobytes()
        digest = hashlib.sha256(probabilities).hexdigest()
        shared = "" if self.shared_negatives is None else f" shares {self.shared_negatives}"
        return f"{self.masking} {self.n_negatives} {digest}{shared}"

    def mark(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        return mask_nodes(batch, generators=[draws], config=self.masking)

    def complete(self, batch: KnowledgeBatch, draws: np.random.Generator) -> KnowledgeBatch:
        assert batch.node_labels is not None
        golds = batch.node_labels[batch.node_kinds == NodeKind.ENTITY]
        if self.shared_negatives is not None:
            sampled, shares = self.sampler.shared(golds, self.shared_negatives, draws)
            return batch.replace(sampled_entities=sampled, sampled_shares=shares)
        sampled = self.sampler.sample(golds, self.n_negatives, draws)
        return batch.replace(sampled_entities=sampled)


class MaskedNodes(Objective):
    """Three heads: words and relations against tied tables with a bias, entities without one.

    Entities are ranked among `batch.sampled_entities` only. The released code divides by the number
    of labels even when there is none, which gives NaN; here that is `empty_loss="nan"`.
    """

    def __init__(
        self,
        *,
        width: int,
        embedding: int,
        n_words: int,
        n_relation_rows: int,
        epsilon: float = 1e-5,
        empty_loss: str = "zero",
    ) -> None:
        super().__init__()

        def transform() -> Transform:
            return Transform(width=width, embedding=embedding, epsilon=epsilon)

        self.word_transform = transform()
        self.word_bias = nn.Parameter(torch.zeros(n_words))
        self.entity_transform = transform()
        self.relation_transform = transform()
        self.relation_bias = nn.Parameter(torch.zeros(n_relation_rows))
        self.empty_loss = empty_loss

    @classmethod
    def for_encoder(cls, encoder: KnowledgeEncoder, options: MaskedNodesOptions) -> Self:
        """Heads of the encoder's sizes; raises `ConfigError` unless it has the three tables."""
        if not isinstance(encoder, CoLAKE):
            raise ConfigError(f"masked_nodes needs entity nodes; {type(encoder).__name__} has none")
        words, host = hosts.word_table(encoder.host), encoder.host.config
        return cls(
            width=host.hidden_size,
            embedding=words.embedding_dim,
            n_words=words.num_embeddings,
            n_relation_rows=encoder.relation_embeddings.num_embeddings,
            epsilon=layer_norm_eps(host),
            empty_loss=options.empty_loss,
        )

    def word_logits(
        self, states: Float[Tensor, "*chosen width"], words: Float[Tensor, "word embedding"]
    ) -> Float[Tensor, "*chosen word"]:
        """Scores of every word piece."""
        return F.linear(self.word_transform(states), words, self.word_bias)

    def entity_logits(
        self,
        states: Float[Tensor, "*chosen width"],
        candidates: Float[Tensor, "candidate embedding"],
    ) -> Float[Tensor, "*chosen candidate"]:
        """Scores of the candidate entities."""
        return F.linear(self.entity_transform(states), candidates)

    def relation_logits(
        self, states: Float[Tensor, "*chosen width"], relations: Float[Tensor, "relation embedding"]
    ) -> Float[Tensor, "*chosen relation"]:
        """Scores of every row of the relation table."""
        return F.linear(self.relation_transform(states), relations, self.relation_bias)

    def row_tables(self) -> tuple[RowTable, ...]:
        """The bias of each relation."""
        return (RowTable(name="relation_bias", of="relation"),)

    def forward(
        self, output: KnowledgeOutput, batch: KnowledgeBatch, encoder: KnowledgeEncoder
    ) -> dict[str, Tensor]:
        """Mean cross entropy per kind, under the names word, entity, relation.

        Raises `BatchError` when an entity label is not among the sampled ones.
        """
        if batch.node_labels is None:
            return {}
        assert isinstance(encoder, CoLAKE)
        words, sampled = hosts.word_table(encoder.host).weight, batch.sampled_entities
        candidates = words[:1] if sampled is None else encoder.entity_embeddings(sampled)
        relations, node_states = encoder.relation_embeddings.weight, output.node_states
        chosen = {kind: labelled_nodes(batch, kind) for kind in NodeKind}
        labels = {kind: at(batch.node_labels, where) for kind, where in chosen.items()}
        states = {kind: at(node_states, where) for kind, where in chosen.items()}
        slots = entity_slots(labels[NodeKind.ENTITY], sampled)
        word, entity, relation = NodeKind
        return {
            "word": self._mean(self.word_logits(states[word], words), labels[word]),
            "entity": self._mean(
                corrected(
                    self.entity_logits(states[entity], candidates), slots, batch.sampled_shares
                ),
                slots,
            ),
            "relation": self._mean(
                self.relation_logits(states[relation], relations), labels[relation]
            ),
        }

    def _mean(
        self, logits: Float[Tensor, "chosen target"], targets: Int[Tensor, " chosen"]
    ) -> Float[Tensor, ""]:
        total = F.cross_entropy(logits, targets, reduction="sum")
        return mean_of(total, len(targets), least=0 if self.empty_loss == "nan" else 1)


def entity_slots(
    rows: Int[Tensor, " chosen"], sampled: Int[Tensor, " candidate"] | None
) -> Int[Tensor, " chosen"]:
    """Index of each entity row among `sampled` (distinct rows, any order)."""
    if len(rows) == 0:
        return rows
    if sampled is None:
        raise BatchError("the batch has entity labels but no sampled_entities to rank")
    known, (ordered, order) = on_host(rows), on_host(sampled).sort()
    positions = torch.searchsorted(ordered, known).clamp(max=len(sampled) - 1)
    absent = known[ordered[positions] != known]
    if len(absent):
        raise BatchError(f"entity label {int(absent[0])} is not among the sampled entities")
    return moved(order[positions], rows.device)


def corrected(
    logits: Float[Tensor, "chosen candidate"],
    golds: Int[Tensor, " chosen"],
    shares: Float[Tensor, " candidate"] | None,
) -> Float[Tensor, "chosen candidate"]:
    """Return logits whose softmax estimates that over all entities; None: as they are.

    `shares` are logs of the chance of each candidate to be sampled, by which it is lowered where it
    is not the gold: the sum over the sampled ones is then right in expectation.
    """
    if shares is None:
        return logits
    is_gold = F.one_hot(golds, logits.shape[1]).bool()
    return torch.where(is_gold, logits, logits - shares.to(logits.dtype))


def relation_scores(
    objective: MaskedNodes,
    encoder: CoLAKE,
    output: KnowledgeOutput,
    batch: KnowledgeBatch,
    nodes: Bool[Tensor, "batch node"] | None = None,
) -> Float[Tensor, "chosen relation"]:
    """Scores of every relation of the graph, by relation id, at some relation nodes.

    `nodes` chooses them; None means the masked ones. Rows come in order of batch, then node.
    """
    if nodes is None:
        nodes = (batch.node_kinds == NodeKind.RELATION.value) & (batch.node_ids == MASK_ROW)
    logits = objective.relation_logits(
        output.node_states[nodes], encoder.relation_embeddings.weight
    )
    return logits[:, N_SPECIAL_ROWS:]
