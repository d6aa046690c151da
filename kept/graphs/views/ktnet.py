"""KT-NET's view: words, each with the concepts that its mention's candidates are.

Yang et al. 2019, "Enhancing Pre-Trained Language Representations with Rich Knowledge for Machine
Reading Comprehension" (ACL): with WordNet as the graph and a link's candidates as its
concepts, they are the synsets of a word. With any other graph they are the candidate entities.

Axis legend: entity, concept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Link
from kept.batches import N_SPECIAL_ROWS, NONE, KnowledgeBatch
from kept.errors import ConfigError
from kept.graphs.annotation import Annotation, annotation_ids
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views.base import View, words_of
from kg_loaders import KnowledgeGraph

CONCEPTS = "concepts"
"""The vocabulary's name in a batch; its ids are rows of entities."""


class KTNETView(View):
    """`words_of`, with `extra_ids` of the vocabulary `CONCEPTS`.

    A word piece has the concepts of every link that it is in, each once: its candidates in the
    graph, the best first and at most `max_concepts`, or its own entity where it has none. Without
    `phrases` only mentions of one word count, as in the paper's WordNet.
    """

    reads_candidates = True
    remedy = (
        "links are there, but none of their candidates is in the graph; link with the graph of the "
        "run"
    )

    def __init__(
        self, graph: KnowledgeGraph, *, max_concepts: int = 30, phrases: bool = True
    ) -> None:
        if max_concepts < 1:
            raise ConfigError(f"max_concepts is {max_concepts}; use 1 or more")
        self.graph, self.max_concepts, self.phrases = graph, max_concepts, phrases

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        return cls(graph, **options)

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.max_concepts} {self.phrases}"

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        ids = annotation_ids(graph, list(self._annotations(graph)))
        return words_of(graph).replace(extra_ids={CONCEPTS: ids})

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether any word has a concept."""
        return bool(((batch.extra_ids or {})[CONCEPTS] != NONE).any())

    def _annotations(self, graph: WordKnowledgeGraph) -> Iterator[Annotation]:
        for link in graph.links:
            start, end = link.mention.start, link.mention.end
            if self.phrases or len(graph.text[start:end].split()) == 1:
                yield Annotation(start, end, tuple(self._rows(link))[: self.max_concepts])

    def _rows(self, link: Link) -> Iterator[int]:
        names = [candidate.entity for candidate in link.candidates]
        for name in names or ([] if link.entity is None else [link.entity]):
            entity = self.graph.entities.find(name)
            if entity is not None:
                yield entity + N_SPECIAL_ROWS
