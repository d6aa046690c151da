"""SenseBERT: words with the vectors of the senses that they may have.

Levine et al. 2020, "SenseBERT: Driving Some Sense into BERT" (ACL), section 3.2: a word enters as
(W + S M) x + p, its own vector plus the sum of those of its allowed senses, which also score the
senses. Where we differ: the senses that a word may have come from its links
(`kept.graphs.views.senses`), so that split words have senses as well; the paper's 60,000 word
pieces split few.

Axis legend: batch, node, sense, embedding (of the host's word table).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, KnowledgeEncoder
from kept.graphs.views.senses import SENSES, sense_names
from kept.layers.vocabularies import Vocabulary
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph
from kg_loaders.errors import GraphMismatchError


class SenseBERTConfig(KnowledgeConfig):
    """`senses`: the names of the classes, in the order of the table's rows."""

    model_type = "kept-sensebert"

    def __init__(self, *, senses: Sequence[str] = (), **options: Any) -> None:
        self.senses = list(senses)
        super().__init__(**options)

    @classmethod
    def of(cls, host: PreTrainedModel, graph: KnowledgeGraph, **options: Any) -> SenseBERTConfig:
        """With the types in `graph` as senses, unless `options` name others."""
        return super().of(host, graph, **{"senses": sense_names(graph), **options})


class SenseBERT(KnowledgeEncoder):
    """The encoder: the host over words plus senses; a masked word has none."""

    config_class = SenseBERTConfig
    parts = {**KnowledgeEncoder.parts, "senses": ("senses.",)}  # noqa: RUF012 - as in the base class

    def __init__(self, config: SenseBERTConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        width = hosts.word_table(self.host).embedding_dim
        # a table of no rows has no gradient and no shape that is saved
        self.senses = Vocabulary(n_entries=max(len(config.senses), 1), embedding=width)
        self.post_init()

    def follow(self, graph: KnowledgeGraph) -> None:
        """As the base; raises `GraphMismatchError` where the types of `graph` are others."""
        types, senses = sense_names(graph), self.config.senses
        if tuple(senses) != types:
            raise GraphMismatchError(
                f"the graph's types ({len(types)}) are not the {len(senses)} senses that this "
                "SenseBERT has vectors of; pre-train it on the new graph"
            )
        super().follow(graph)

    def group_outside_host(self, name: str) -> str:
        """The table is an embedding."""
        return EMBEDDINGS

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """States of every word; in a batch without the vocabulary no word has a sense."""
        vectors = self.node_vectors(batch, {0: hosts.word_table(self.host)})
        if batch.extra_ids is not None and SENSES in batch.extra_ids:
            vectors = vectors + self.senses(batch.extra_ids[SENSES])
        return self.read(vectors, batch)
