"""Conditions of a reading control: true facts, none, or one of four kinds of false ones.

Axis legend: triple.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from entity_linking.mentions import Link, LinkedText
from kept.inputs.controls.conditions import controlled_graph
from kept.inputs.controls.shuffles import shuffle_objects, without_triples
from kept.randomness import generator
from kept.suggestions import no_such
from kept.tasks.datasets.example import TaskExample
from kg_loaders import KnowledgeGraph

TRUE, OFF, REDRAWN = "true", "off", "redrawn"
CONDITIONS = (TRUE, "anchors-only", OFF, "shuffled", "shuffled-in-type", REDRAWN, "random-tokens")
"""true; the links without a fact; neither; objects shuffled within each relation; within their
type, whatever the relation; the facts of another entity of the type, sampled anew at each mention
and epoch; random relations, objects and words."""
Relink = Callable[[LinkedText, np.random.Generator], LinkedText]


def require_condition(name: str) -> str:
    """`name`; raises `ConfigError` for one that is none of `CONDITIONS`."""
    if name not in CONDITIONS:
        raise no_such("condition", name, CONDITIONS)
    return name


def graph_under(graph: KnowledgeGraph, condition: str, seed: int) -> KnowledgeGraph:
    """Return `graph` under the condition; ids mean the same in all conditions."""
    require_condition(condition)
    if condition == "anchors-only":
        return without_triples(graph)
    if condition == "shuffled":
        return shuffle_objects(graph, generator(seed, "shuffled objects"))
    if condition == "shuffled-in-type":
        return shuffle_within_types(graph, generator(seed, "shuffled within types"))
    if condition == "random-tokens":
        return controlled_graph(graph, "random-tokens", seed)
    return graph


def examples_under(examples: list[TaskExample], condition: str) -> list[TaskExample]:
    """Return the examples, without their links where knowledge is off."""
    if condition != OFF:
        return examples
    return [
        dataclasses.replace(e, linked=dataclasses.replace(e.linked, links=())) for e in examples
    ]


def shuffle_within_types(graph: KnowledgeGraph, draws: np.random.Generator) -> KnowledgeGraph:
    """Permute tails among triples whose tails have the same types, whatever the relation.

    Types are those of `KnowledgeGraph.types`; entities without any are of one kind.
    """
    triples: NDArray[np.int32] = np.array(graph.triples)
    kinds: dict[tuple[str, ...], list[int]] = {}
    types = {int(tail): tuple(sorted(graph.types(int(tail)))) for tail in np.unique(triples[:, 2])}
    for row, tail in enumerate(triples[:, 2].tolist()):
        kinds.setdefault(types[tail], []).append(row)
    for _, rows in sorted(kinds.items()):
        triples[rows, 2] = triples[draws.permutation(rows), 2]
    return graph.with_triples(triples, note="objects shuffled within their types")


@dataclasses.dataclass(frozen=True)
class AnotherEntity:
    """Each link leads to another entity of the first one's type, sampled anew at each reading.

    The words stay; what a method reads at the mention (a vector, a row, facts) is another entity's
    each time, so that neither reading nor memorising it helps.
    """

    entities: tuple[str, ...]

    @classmethod
    def of(cls, graph: KnowledgeGraph, type_name: str) -> AnotherEntity:
        """Among all entities of `graph` that have this type."""
        of_type = (i for i in range(graph.n_entities) if type_name in graph.types(i))
        return cls(tuple(graph.entities.name(i) for i in of_type))

    def __call__(self, linked: LinkedText, draws: np.random.Generator) -> LinkedText:
        return dataclasses.replace(
            linked, links=tuple(self._moved(link, draws) for link in linked.links)
        )

    def _moved(self, link: Link, draws: np.random.Generator) -> Link:
        replacement = self.entities[int(draws.integers(len(self.entities)))]
        return dataclasses.replace(link, entity=replacement, candidates=())
