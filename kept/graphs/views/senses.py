"""SenseBERT's view: words, each with the supersenses that its mention's candidates may have.

Levine et al. 2020, "SenseBERT: Driving Some Sense into BERT" (ACL), section 3: with WordNet as the
graph and a link's candidates as the senses of a word, the classes are its supersenses. With any
other graph they are the types of the entities.

Axis legend: entity, sense.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from kept.graphs.views.base import CandidatesView
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


class SensesView(CandidatesView):
    """`words_of`, with `extra_ids` of the vocabulary `SENSES`.

    A word piece has the types of all candidates of every link that it is in, or of the link's own
    entity where it has no candidates. Without `phrases` only mentions of one word count, as in the
    paper.
    """

    vocabulary = SENSES
    remedy = (
        "links are there, but none of their candidates has a type; give a graph with types "
        "(WordNet's files have them: kept kg build /usr/share/wordnet)"
    )

    def __init__(self, graph: KnowledgeGraph, *, phrases: bool = True) -> None:
        super().__init__(graph, phrases=phrases)
        self.names = sense_names(graph)
        self._numbers = {name: i for i, name in enumerate(self.names)}

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.phrases}"

    def ids_of(self, entities: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the types of all, ascending."""
        types = {kind for entity in entities for kind in self.graph.types(entity)}
        return tuple(sorted(self._numbers[kind] for kind in types if kind in self._numbers))
