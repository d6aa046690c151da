"""Types of entities from facts: "Anna is an instance of human" gives Anna the type human."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.assembly import Columns
from kg_loaders.disk.arrow import (
    mask_array,
    numbers_array,
    numpy_of,
    places_of,
    strings_array,
)
from kg_loaders.reading.blocks import TextBlock
from kg_loaders.records import DEPRECATED_TYPES, TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.stored_blocks import blocks_of

TYPE_RELATIONS = frozenset(
    {
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "rdf:type", "P31", "wdt:P31",
        "http://www.wikidata.org/prop/direct/P31", "http://www.wikidata.org/prop/P31",
    }
)  # fmt: skip
"""Identifiers of relations that say of what kind an entity is."""
TYPE_NAMES = frozenset({"instance of", "is instance of", "is an instance of", "instanceof"})
"""Names and identifiers of such relations, in lower case, with blanks for `_` and `-`."""
OF_SCHEMAS = (
    "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
)  # fmt: skip
"""Where classes of terms come from (a class, a property): they say nothing of what a thing is."""


@dataclass(frozen=True, eq=False)
class FactTypes:
    """What facts say of types: int32 `[type 2]`, entity and class, distinct and sorted."""

    relations: tuple[str, ...]
    pairs: NDArray[np.int32]

    @property
    def n_entities(self) -> int:
        """How many entities have a type by a fact."""
        return len(np.unique(self.pairs[:, 0]))


def fact_types(graph: KnowledgeGraph) -> FactTypes:
    """Return the types that the facts of `graph` say.

    >>> facts = fact_types(KnowledgeGraph.from_triples([("anna", "instance of", "human")]))
    >>> facts.relations, facts.pairs.tolist()
    (('instance of',), [[0, 1]])
    """
    relations = [number for number in range(graph.n_relations) if _is_of_types(graph, number)]
    triples = np.asarray(graph.triples)
    rows = triples[np.isin(triples[:, 1], relations)][:, [0, 2]]
    names = tuple(graph.relations.name(number) for number in relations)
    classes = graph.entities.array.take(numbers_array(rows[:, 1]))
    is_schema = np.zeros(len(rows), np.bool_)
    for prefix in OF_SCHEMAS:
        is_schema |= numpy_of(pc.starts_with(classes, prefix))
    pairs = np.unique(rows[~is_schema], axis=0).astype(np.int32)
    return FactTypes(names, pairs.reshape(-1, 2))


def has_other_types(graph: KnowledgeGraph, facts: FactTypes) -> bool:
    """Return whether a text gives a type that no fact says; marks of deprecated terms are none."""
    texts = graph.entity_texts
    rows = np.flatnonzero(np.asarray(texts.kinds) == TextKind.TYPE)
    values = texts.values.take(numbers_array(rows))
    marks = strings_array(DEPRECATED_TYPES, values.type)
    is_type = ~numpy_of(pc.is_in(values, marks))
    rows, values = rows[is_type], values.filter(mask_array(is_type))
    places = pc.index_in(values, graph.entities.array.cast(values.type))
    classes = places_of(places).astype(np.int64)
    nodes = np.searchsorted(texts.offsets, rows, side="right") - 1
    type_keys = facts.pairs.astype(np.int64) @ np.array([graph.n_entities, 1])
    return bool((~np.isin(nodes * graph.n_entities + classes, type_keys) | (classes < 0)).any())


def typed_by_facts(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return `graph` with the types that its facts say, or as it is where its texts give others.

    >>> graph = KnowledgeGraph.from_triples(
    ...     [("anna", "instance of", "human")], types_of_facts=False
    ... )
    >>> graph.types(0), typed_by_facts(graph).types(0)
    ([], ['human'])
    """
    facts = fact_types(graph)
    if not len(facts.pairs) or has_other_types(graph, facts):
        return graph
    return with_fact_types(graph, facts)


def with_fact_types(
    graph: KnowledgeGraph, facts: FactTypes, *, n_threads: int = 1
) -> KnowledgeGraph:
    """Return `graph` with its types by facts beside its texts; facts, ids and order stay."""
    columns = Columns(n_threads)
    columns.add(blocks_of(graph))
    columns.add(_blocks(graph, facts))
    manifest = graph.manifest
    fields = columns.fields(
        languages=manifest.preferred, sources=manifest.sources, licence=manifest.licence
    )
    return KnowledgeGraph(**fields)


def _blocks(graph: KnowledgeGraph, facts: FactTypes) -> Iterator[TextBlock]:
    n = len(facts.pairs)
    yield TextBlock(
        graph.entities.array, np.ascontiguousarray(facts.pairs[:, 0]),
        np.full(n, TextKind.TYPE, np.uint8),
        graph.entities.array.take(numbers_array(facts.pairs[:, 1])),
        np.zeros(n, np.int32), ("",), False, None,
    )  # fmt: skip


def _is_of_types(graph: KnowledgeGraph, relation: int) -> bool:
    name = graph.relations.name(relation)
    labels = [value for value, _ in graph.relation_texts.of(relation, TextKind.LABEL)]
    return name in TYPE_RELATIONS or any(_plain(each) in TYPE_NAMES for each in (name, *labels))


def _plain(name: str) -> str:
    local = name.rsplit("/", 1)[-1].rsplit("#", 1)[-1]  # /r/InstanceOf, http://…#instanceOf
    return " ".join(local.casefold().replace("_", " ").replace("-", " ").split())
