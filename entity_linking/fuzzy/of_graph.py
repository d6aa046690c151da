"""`SpeltAlike`: the names of a graph that are spelt almost like a mention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from entity_linking.mentions import LinkedText
from entity_linking.parts import Candidates
from kg_loaders import KnowledgeGraph

if TYPE_CHECKING:
    from entity_linking.fuzzy.index import FuzzyCandidates


class SpeltAlike:
    """`FuzzyCandidates` over a graph's labels and aliases, indexed when first asked.

    `languages` takes names in these languages and those without one; None takes all;
    `deprecated` takes those of terms that their source calls deprecated, too.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        languages: Sequence[str] | None = None,
        *,
        deprecated: bool = False,
    ) -> None:
        self._graph, self._languages, self._deprecated = graph, languages, deprecated

    def __repr__(self) -> str:
        return f"SpeltAlike({self._graph!r})"

    @cached_property
    def _source(self) -> FuzzyCandidates:
        from entity_linking.fuzzy.index import FuzzyCandidates, FuzzyIndex  # rarely needed

        names = FuzzyIndex.of_graph(self._graph, self._languages, deprecated=self._deprecated)
        return FuzzyCandidates(names)

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, best first."""
        return self._source.candidates(texts)
