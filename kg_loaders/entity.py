"""`Entity`: one entity of a graph with its names, facts and neighbours, for reading and scripts."""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kg_loaders.errors import AmbiguousNameError, UnknownNodeError
from kg_loaders.notebook import table
from kg_loaders.spelling import did_you_mean
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary

N_IN_MESSAGE = 5
"""Entities of one name that an error lists."""
MOST_COMPARED = 100_000
"""Entities of a graph whose labels are compared with a misspelt name."""


class Graph(Protocol):
    """What is asked of a graph here; `kg_loaders.KnowledgeGraph` has it all."""

    @property
    def content_hash(self) -> str: ...
    @property
    def n_entities(self) -> int: ...

    entities: Vocabulary
    relations: Vocabulary
    entity_texts: Texts
    relation_texts: Texts

    def named(self, name: str) -> list[int]: ...
    def label(self, entity: int) -> str: ...
    def labels(self, entities: NDArray[np.integer[Any]]) -> list[str]: ...
    def relation_label(self, relation: int) -> str: ...
    def aliases(self, entity: int) -> list[tuple[str, int]]: ...
    def description(self, entity: int) -> str | None: ...
    def types(self, entity: int) -> list[str]: ...
    def type_labels(self, entity: int) -> list[str]: ...
    def outgoing(self, entity: int) -> NDArray[np.int32]: ...
    def incoming(self, entity: int) -> NDArray[np.int32]: ...


class Entity:
    """One entity of `graph`; equal to another of the same graph with the same identifier.

    >>> from kg_loaders import atlas
    >>> seine = atlas.graph()["Seine"]
    >>> seine.label, seine.types, seine.facts[0]
    ('Seine', ['river'], ('Seine', 'country', 'France'))
    >>> [each.label for each in seine.neighbours][:2]
    ['English Channel', 'France']
    """

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph, self.index = graph, index

    @property
    def id(self) -> str:
        """The identifier, such as "Q90"."""
        return self.graph.entities.name(self.index)

    @property
    def label(self) -> str:
        """The best label; the identifier where there is none."""
        return self.graph.label(self.index)

    @property
    def aliases(self) -> list[str]:
        """Other names, the most frequent first."""
        return [alias for alias, _ in self.graph.aliases(self.index)]

    @property
    def description(self) -> str | None:
        """The best description, or None."""
        return self.graph.description(self.index)

    @property
    def types(self) -> list[str]:
        """Labels of the types; a type that is not an entity is called what the file says."""
        return self.graph.type_labels(self.index)

    @property
    def facts(self) -> list[tuple[str, str, str]]:
        """The triples of the entity in words, those that start at it first.

        An entity that shares its label with another one has its identifier behind it.
        """
        return facts_of(self.graph, [self.index])

    @property
    def neighbours(self) -> list[Entity]:
        """The entities at the other end of its triples, each once, sorted by label."""
        graph = self.graph
        ends = np.concatenate([graph.outgoing(self.index)[:, 2], graph.incoming(self.index)[:, 0]])
        others = [Entity(graph, i) for i in np.unique(ends).tolist() if i != self.index]
        return sorted(others, key=lambda each: (each.label, each.id))

    @property
    def neighbors(self) -> list[Entity]:
        """The same as `neighbours`."""
        return self.neighbours

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entity):
            return NotImplemented
        return self.id == other.id and self.graph.content_hash == other.graph.content_hash

    def __hash__(self) -> int:
        return hash((self.id, self.graph.content_hash))

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"Entity({self.id!r}, {self.label!r})"

    def _repr_html_(self) -> str:
        about = f"{self.label} ({self.id}): {self.description or 'no description'}"
        rows = self.facts
        head = ("head", "relation", "tail")
        return table(about, head, rows, len(rows)) + f"<p>{escape(', '.join(self.types))}</p>"


def facts_of(graph: Graph, entities: list[int]) -> list[tuple[str, str, str]]:
    """Return the triples of `entities` in words, homonyms kept apart by their identifiers."""
    starts = [graph.outgoing(i) for i in entities]
    ends = [graph.incoming(i) for i in entities]
    rows = np.concatenate([*starts, *ends])
    distinct = dict.fromkeys(map(tuple, rows.tolist()))
    ids = list(dict.fromkeys(index for head, _, tail in distinct for index in (head, tail)))
    names = dict(zip(ids, distinct_names(graph, ids), strict=True))
    relations = {row[1]: graph.relation_label(row[1]) for row in distinct}
    return [(names[h], relations[r], names[t]) for h, r, t in distinct]


def distinct_name(graph: Graph, index: int) -> str:
    """Return the label of an entity, with its identifier where another one has the same label.

    >>> from kg_loaders import atlas
    >>> world = atlas.graph()
    >>> distinct_name(world, world.entities.id("Q90"))
    'Paris (Q90)'
    """
    return distinct_names(graph, [index])[0]


def distinct_names(graph: Graph, ids: list[int]) -> list[str]:
    """`distinct_name` of several entities."""
    labels = [graph.label(index) for index in ids]
    bearers = graph.entity_texts.named_each(labels)
    names: list[str] = []
    for index, label in zip(ids, labels, strict=True):
        is_shared = any(i != index and graph.label(i) == label for i in bearers[label])
        names.append(f"{label} ({graph.entities.name(index)})" if is_shared else label)
    return names


def entity_named(graph: Graph, name: str) -> Entity:
    """Return the entity that `name` means: its identifier, else its label, else its alias.

    `UnknownNodeError` where there is none; `AmbiguousNameError`, which lists them, where several
    entities have the name.
    """
    index = graph.entities.find(name)
    if index is not None:
        return Entity(graph, index)
    ids = graph.named(name)
    by_label = [i for i in ids if graph.label(i) == name] or ids
    if len(by_label) == 1:
        return Entity(graph, by_label[0])
    if not ids:
        raise UnknownNodeError(
            f"no entity of {graph} has the identifier, label or alias {name!r}; upper and lower "
            f"case differ{did_you_mean(name, _some_labels(graph))}"
        )
    by_label.sort(key=lambda i: -len(graph.outgoing(i)) - len(graph.incoming(i)))
    examples = [Entity(graph, i) for i in by_label[:N_IN_MESSAGE]]
    listed = ", ".join(f"{each.id} ({each.description or _first_fact(each)})" for each in examples)
    more = f" and {len(by_label) - len(examples)} more" if len(by_label) > len(examples) else ""
    raise AmbiguousNameError(
        f"{len(by_label)} entities are called {name!r}: {listed}{more}; "
        f"use an identifier, such as {examples[0].id!r}"
    )


def _first_fact(entity: Entity) -> str:
    facts = entity.facts
    return " – ".join(facts[0]) if facts else "no facts"


def _some_labels(graph: Graph) -> list[str]:
    """Labels that a misspelt name is compared with; none of a graph too large to look through."""
    if graph.n_entities > MOST_COMPARED:
        return []
    return graph.labels(np.arange(graph.n_entities))


def relation_named(graph: Graph, name: str) -> str:
    """Return the identifier of the relation that `name` means: its identifier, or its label.

    `UnknownNodeError` where there is none, `AmbiguousNameError` where several have the name.

    >>> from kg_loaders import atlas
    >>> relation_named(atlas.graph(), "country")
    'P17'
    """
    if name in graph.relations:
        return name
    ids = sorted(set(graph.relation_texts.named(name)))
    if len(ids) == 1:
        return graph.relations.name(ids[0])
    if ids:
        listed = ", ".join(map(graph.relations.name, ids))
        raise AmbiguousNameError(f"{len(ids)} relations are called {name!r}: {listed}")
    labels = [graph.relation_label(i) for i in range(min(len(graph.relations), MOST_COMPARED))]
    hint = did_you_mean(name, labels)
    if graph.named(name):
        hint = "; it is the name of an entity: a relation has to be in its place"
    raise UnknownNodeError(f"no relation of {graph} has the identifier or label {name!r}{hint}")
