"""KT-NET's view: words, each with the concepts that its mention's candidates are.

Yang et al. 2019, "Enhancing Pre-Trained Language Representations with Rich Knowledge for Machine
Reading Comprehension" (ACL): with WordNet as the graph and a link's candidates as its
concepts, they are the synsets of a word. With any other graph they are the candidate entities.

Axis legend: entity, concept.
"""

from __future__ import annotations

from collections.abc import Sequence

from kept.batches import N_SPECIAL_ROWS
from kept.errors import ConfigError
from kept.graphs.views.base import CandidatesView
from kg_loaders import KnowledgeGraph

CONCEPTS = "concepts"
"""The vocabulary's name in a batch; its ids are rows of entities."""


class KTNETView(CandidatesView):
    """`words_of`, with `extra_ids` of the vocabulary `CONCEPTS`.

    A word piece has the concepts of every link that it is in, each once: its candidates in the
    graph, the best first and at most `max_concepts`, or its own entity where it has none. Without
    `phrases` only mentions of one word count, as in the paper's WordNet.
    """

    vocabulary = CONCEPTS
    remedy = (
        "links are there, but none of their candidates is in the graph; link with the graph of the "
        "run"
    )

    def __init__(
        self, graph: KnowledgeGraph, *, max_concepts: int = 30, phrases: bool = True
    ) -> None:
        if max_concepts < 1:
            raise ConfigError(f"max_concepts is {max_concepts}; use 1 or more")
        super().__init__(graph, phrases=phrases)
        self.max_concepts = max_concepts

    @property
    def fingerprint(self) -> str:
        return f"{type(self).__name__} {self.max_concepts} {self.phrases}"

    def ids_of(self, entities: Sequence[int]) -> tuple[int, ...]:
        """Return the rows of the first `max_concepts`."""
        return tuple(entity + N_SPECIAL_ROWS for entity in entities[: self.max_concepts])
