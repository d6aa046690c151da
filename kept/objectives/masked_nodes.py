"""CoLAKE's objective: predict masked words, entities and relations (Sun et al. 2020, section 3.3).

Axis legend: batch, node, chosen (nodes that are scored), width, embedding, word, candidate,
relation (rows of the relation table, special rows first).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import IGNORE, MASK_ROW, N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.base import KnowledgeModel
from kept.encoders.colake import CoLAKE, CoLAKEConfig
from kept.errors import BatchError
from kept.graphs.graph import NodeKind
from kept.layers.transform import Transform
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph


class MaskedNodes(nn.Module):
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

    def word_logits(
        self,
        states: Float[Tensor, "*chosen width"],
        words: Float[Tensor, "word embedding"],
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
        self,
        states: Float[Tensor, "*chosen width"],
        relations: Float[Tensor, "relation embedding"],
    ) -> Float[Tensor, "*chosen relation"]:
        """Scores of every row of the relation table."""
        return F.linear(self.relation_transform(states), relations, self.relation_bias)

    def forward(
        self,
        node_states: Float[Tensor, "batch node width"],
        batch: KnowledgeBatch,
        *,
        words: Float[Tensor, "word embedding"],
        candidates: Float[Tensor, "candidate embedding"] | None,
        relations: Float[Tensor, "relation embedding"],
    ) -> dict[str, Tensor]:
        """Mean cross entropy per kind, under the names word, entity, relation.

        `candidates` are the vectors of `batch.sampled_entities`. Raises `BatchError` when labels
        are absent, or an entity label is not among the sampled ones.
        """
        if batch.node_labels is None:
            raise BatchError("masked-node losses need node_labels; mask the batch first")
        labels = {kind: batch.node_labels[_labelled(batch, kind)] for kind in NodeKind}
        states = {kind: node_states[_labelled(batch, kind)] for kind in NodeKind}
        slots = entity_slots(labels[NodeKind.ENTITY], batch.sampled_entities)
        if candidates is None:
            candidates = words[:1]  # no entity label: the loss is that of no label at all
        word, entity, relation = NodeKind
        return {
            "word": self._mean(self.word_logits(states[word], words), labels[word]),
            "entity": self._mean(self.entity_logits(states[entity], candidates), slots),
            "relation": self._mean(
                self.relation_logits(states[relation], relations), labels[relation]
            ),
        }

    def _mean(
        self, logits: Float[Tensor, "chosen target"], targets: Int[Tensor, " chosen"]
    ) -> Float[Tensor, ""]:
        total = F.cross_entropy(logits, targets, reduction="sum")
        n_labels = len(targets) if self.empty_loss == "nan" else max(len(targets), 1)
        return total / n_labels


def _labelled(batch: KnowledgeBatch, kind: NodeKind) -> Tensor:
    assert batch.node_labels is not None
    labelled: Tensor = (batch.node_kinds == kind.value) & (batch.node_labels != IGNORE)
    return labelled


def entity_slots(
    rows: Int[Tensor, " chosen"], sampled: Int[Tensor, " candidate"] | None
) -> Int[Tensor, " chosen"]:
    """Index of each entity row among `sampled` (distinct rows, any order)."""
    if len(rows) == 0:
        return rows
    if sampled is None:
        raise BatchError("the batch has entity labels but no sampled_entities to rank")
    ordered, order = sampled.sort()
    places = torch.searchsorted(ordered, rows).clamp(max=len(sampled) - 1)
    absent = rows[ordered[places] != rows]
    if len(absent):
        raise BatchError(f"entity label {int(absent[0])} is not among the sampled entities")
    return order[places]


class CoLAKEForPreTraining(KnowledgeModel):
    """CoLAKE's encoder with its masked-node objective."""

    config_class = CoLAKEConfig

    def __init__(self, config: CoLAKEConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        self.encoder = CoLAKE(self.config, host=host)
        host_config = self.encoder.host.config
        self.config.host = host_config
        words = hosts.word_table(self.encoder.host)
        self.objective = MaskedNodes(
            width=host_config.hidden_size,
            embedding=words.embedding_dim,
            n_words=words.num_embeddings,
            n_relation_rows=config.n_relations + N_SPECIAL_ROWS,
            epsilon=host_config.layer_norm_eps,
            empty_loss=config.empty_loss,
        )
        self.post_init()

    @classmethod
    def from_host(cls, host: PreTrainedModel, graph: KnowledgeGraph, **options: Any) -> Self:
        """A new model around a trained `host`; `options` are those of `CoLAKEConfig`."""
        model: Self = cls(CoLAKEConfig.of(host, graph, **options), host=host).to(host.dtype)
        return model

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """The encoder's output; with `losses` when the batch has `node_labels`."""
        output: KnowledgeOutput = self.encoder(batch)
        if batch.node_labels is None:
            return output
        sampled = batch.sampled_entities
        losses = self.objective(
            output.node_states,
            batch,
            words=hosts.word_table(self.encoder.host).weight,
            candidates=None if sampled is None else self.encoder.entity_embeddings(sampled),
            relations=self.encoder.relation_embeddings.weight,
        )
        return dataclasses.replace(output, losses=losses)

    def relation_scores(
        self,
        output: KnowledgeOutput,
        batch: KnowledgeBatch,
        nodes: Bool[Tensor, "batch node"] | None = None,
    ) -> Float[Tensor, "chosen relation"]:
        """Scores of every relation of the graph, by relation id, at some relation nodes.

        `nodes` chooses them; None means the masked ones. Rows come in order of batch, then node.
        """
        if nodes is None:
            nodes = (batch.node_kinds == NodeKind.RELATION.value) & (batch.node_ids == MASK_ROW)
        logits = self.objective.relation_logits(
            output.node_states[nodes], self.encoder.relation_embeddings.weight
        )
        return logits[:, N_SPECIAL_ROWS:]
