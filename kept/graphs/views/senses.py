"""SenseBERT's view: words, each with the supersenses that its mention's candidates may have.

Levine et al. 2020, "SenseBERT: Driving Some Sense into BERT" (ACL), section 3: with WordNet as the
graph and a link's candidates as the senses of a word, the classes are its supersenses. With any
other graph they are the types of the entities.

Axis legend: entity, sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
from transformers import PreTrainedTokenizerBase

from entity_linking.mentions import Link
from kept.batches import NONE, KnowledgeBatch
from kept.graphs.annotation import Annotation, annotation_ids
from kept.graphs.graph import WordKnowledgeGraph
from kept.graphs.views.base import View, words_of
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.formats.wordnet import SUPERSENSES

SENSES = "senses"
"""The vocabulary's name in a batch."""
NO_SENSE = "adj.satellite"
"""A type of WordNet's satellites, which is not a lexicographer file."""


def sense_names(graph: KnowledgeGraph) -> tuple[str, ...]:
    """The types in a graph, WordNet's 45 in the order of their files first, then by name."""
    texts = graph.entity_texts
    rows = np.flatnonzero(np.asarray(texts.kinds) == TextKind.TYPE)
    types = set(pc.unique(texts.values.take(rows)).to_pylist()) - {NO_SENSE}
    return (*(n for n in SUPERSENSES if n in types), *sorted(types - {*SUPERSENSES}))


class SensesView(View):
    """`words_of`, with `extra_ids` of the vocabulary `SENSES`.

    A word piece has the types of all candidates of every link that it is in, or of the link's own
    entity where it has no candidates. Without `phrases` only mentions of one word count, as in the
    paper.
    """

    reads_candidates = True
    remedy = (
        "links are there, but none of their candidates has a type; give a graph with types "
        "(WordNet's files have them: kept kg build /usr/share/wordnet)"
    )

    def __init__(self, graph: KnowledgeGraph, *, phrases: bool = True) -> None:
        self.graph, self.phrases = graph, phrases
        self.names = sense_names(graph)
        self._numbers = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def of(cls, graph: KnowledgeGraph, tokenizer: PreTrainedTokenizerBase, **options: Any) -> Self:
        return cls(graph, **options)

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.phrases}"

    def __call__(self, graph: WordKnowledgeGraph) -> KnowledgeBatch:
        ids = annotation_ids(graph, list(self._annotations(graph)))
        return words_of(graph).replace(extra_ids={SENSES: ids})

    def contains_knowledge(self, graph: WordKnowledgeGraph, batch: KnowledgeBatch) -> bool:
        """Whether any word may have a sense."""
        return bool(((batch.extra_ids or {})[SENSES] != NONE).any())

    def _annotations(self, graph: WordKnowledgeGraph) -> Iterator[Annotation]:
        for link in graph.links:
            start, end = link.mention.start, link.mention.end
            if self.phrases or len(graph.text[start:end].split()) == 1:
                yield Annotation(start, end, self._senses(link))

    def _senses(self, link: Link) -> tuple[int, ...]:
        names = [candidate.entity for candidate in link.candidates]
        names = names or ([] if link.entity is None else [link.entity])
        senses: set[int] = set()
        for name in names:
            entity = self.graph.entities.find(name)
            if entity is not None:
                types = self.graph.types(entity)
                senses.update(self._numbers[kind] for kind in types if kind in self._numbers)
        return tuple(sorted(senses))
