"""Another entity's facts, sampled anew at every reading: the control `redrawn`.

"random-entity" gives an entity always the same other one, whose identity a method can learn by
heart; here neither the facts nor who they are about say anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from entity_linking.mentions import Link, LinkedText
from kept.inputs.controls.conditions import Knowledge
from kg_loaders import KnowledgeGraph

Relink = Callable[[LinkedText, np.random.Generator], LinkedText]


@dataclasses.dataclass(frozen=True, eq=False)
class RedrawnEntities:
    """Each link leads to another entity of `graph` with as much to say, sampled at each reading.

    An entity with a fact of its own gets another one with a fact, one without gets one without: so
    facts stand where they stood. Links to entities that the graph does not know stay, and so does
    the only one of its kind. Candidates move alike, each by itself.

    >>> from kept import atlas
    >>> world = atlas.graph()
    >>> [len(group) for group in RedrawnEntities.of(world).groups]  # without facts, with facts
    [24, 2333]
    """

    graph: KnowledgeGraph
    groups: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> RedrawnEntities:
        """Entities of `graph` without facts of their own, and with them."""
        has_facts = np.diff(graph.out_offsets) > 0
        return cls(graph, (np.flatnonzero(~has_facts), np.flatnonzero(has_facts)))

    def __repr__(self) -> str:
        n = len(self.groups[1])
        return (
            f"RedrawnEntities({self.graph.n_entities} entities, {n} with facts, "
            f"{self.graph.content_hash})"
        )

    def __call__(self, linked: LinkedText, draws: np.random.Generator) -> LinkedText:
        links = tuple(self._moved(link, draws) for link in linked.links)
        return dataclasses.replace(linked, links=links)

    def _moved(self, link: Link, draws: np.random.Generator) -> Link:
        candidates = tuple(
            structs.replace(candidate, entity=self._other(candidate.entity, draws))
            for candidate in link.candidates
        )
        replacements = {
            old.entity: new for old, new in zip(link.candidates, candidates, strict=True)
        }
        entity = link.entity
        if entity in replacements:
            entity = replacements[entity].entity
        elif entity is not None:
            entity = self._other(entity, draws)
        return dataclasses.replace(link, entity=entity, candidates=candidates)

    def _other(self, entity: str, draws: np.random.Generator) -> str:
        number = self.graph.entities.find(entity)
        if number is None:
            return entity
        has_facts = self.graph.out_offsets[number + 1] > self.graph.out_offsets[number]
        group = self.groups[int(has_facts)]
        if len(group) < 2:
            return entity
        index = int(draws.integers(len(group) - 1))
        return self.graph.entities.name(
            int(group[index + (index >= np.searchsorted(group, number))])
        )


def relinking(knowledge: Knowledge, graph: KnowledgeGraph) -> Relink | None:
    """How `knowledge` changes the links of a text whenever it is read; None where it does not."""
    return RedrawnEntities.of(graph) if knowledge == "redrawn" else None
