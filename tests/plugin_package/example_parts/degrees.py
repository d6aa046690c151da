"""A method: each word of a linked mention gets a vector that says how many facts its entity has.

Axis legend: batch, node, width.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kept import hosts
from kept.batches import NONE, KnowledgeBatch
from kept.encoders.base import EMBEDDINGS, KnowledgeConfig, KnowledgeEncoder
from kept.graphs.annotation import Annotation, annotation_ids
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views import WORDS_ONLY
from kept.graphs.views.base import View, words_of
from kept.layers.vocabularies import Vocabulary
from kept.methods import Method
from kept.outputs import KnowledgeOutput
from kg_loaders import KnowledgeGraph

DEGREES = "degrees"
"""Name of the ids in a batch."""
N_CLASSES = 16
"""Classes of degrees: 0, 1, 2 to 3, 4 to 7, and so on."""


class DegreesView(View):
    """The words, each with the class of the degree of the entity that its mention is linked to."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        ends = np.asarray(graph.triples)[:, [0, 2]].ravel()
        degrees = np.bincount(ends, minlength=graph.n_entities)
        self.classes = np.ceil(np.log2(degrees + 1)).astype(np.int64).clip(max=N_CLASSES - 1)

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        return cls(graph, **options)

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        annotations = []
        for link in graph.links:
            entity = None if link.entity is None else self.graph.entities.find(link.entity)
            if entity is not None:
                degree = int(self.classes[entity])
                annotations.append(Annotation(link.mention.start, link.mention.end, (degree,)))
        return words_of(graph).replace(extra_ids={DEGREES: annotation_ids(graph, annotations)})

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether any word has a degree."""
        return bool(((batch.extra_ids or {})[DEGREES] != NONE).any())


class DegreesConfig(KnowledgeConfig):
    """A host's configuration; its `model_type` is `kept-` and the name of the entry point."""

    model_type = "kept-degrees"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)


class Degrees(KnowledgeEncoder):
    """The host over words plus degrees."""

    config_class = DegreesConfig
    holds_rows = False
    parts = {**KnowledgeEncoder.parts, "degrees": ("degrees.",)}

    def __init__(self, config: DegreesConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config, host=host)
        width = hosts.word_table(self.host).embedding_dim
        self.degrees = Vocabulary(n_entries=N_CLASSES, embedding=width)
        self.post_init()

    def group_outside_host(self, name: str) -> str:
        """The table is an embedding."""
        return EMBEDDINGS

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """Return the states of every word."""
        vectors = self.node_vectors(batch, {0: hosts.word_table(self.host)})
        if batch.extra_ids is not None and DEGREES in batch.extra_ids:
            vectors = vectors + self.degrees(batch.extra_ids[DEGREES])
        return self.read(vectors, batch)


METHOD = Method(
    paper="degrees of linked entities, an example",
    since="0.3",
    enters="a vector of its entity's degree, added to each word of a mention",
    encoder=Degrees,
    view=DegreesView,
    builder=WORDS_ONLY,
    objectives={"mlm": {}},
    injects="nothing",
    unreleased="an example: no paper, no weights",
)
