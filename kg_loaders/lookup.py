"""A graph by names, for people: which entities have one, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.build import graph_from_records
from kg_loaders.errors import UnknownNodeError
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph

NAMES = (TextKind.LABEL, TextKind.ALIAS)


def from_triples(
    triples: Iterable[tuple[str, str, str]], labels: Mapping[str, str] | None = None
) -> KnowledgeGraph:
    """Return the graph of (head, relation, tail), in memory.

    `labels` name entities and relations; what has none goes by its identifier.

    >>> graph = from_triples([("Q90", "P17", "Q142")], {"Q90": "Paris", "P17": "country"})
    >>> graph.label(graph.entities.find("Q90")), graph.relation_label(0)
    ('Paris', 'country')
    """
    rows = [Triple(*triple) for triple in triples]
    relations = {row.relation for row in rows}
    entities = {end for row in rows for end in (row.head, row.tail)}
    records: list[Record] = [*rows]
    for node, label in (labels or {}).items():
        if node not in entities and node not in relations:
            raise UnknownNodeError(f"the label {label!r} is of {node!r}, which no triple has")
        for is_relation, nodes in ((False, entities), (True, relations)):
            if node in nodes:
                records.append(Text(node, TextKind.LABEL, label, is_relation=is_relation))
    return graph_from_records(records)


def labels(graph: KnowledgeGraph, entities: NDArray[np.integer[Any]]) -> list[str]:
    """Return `graph.label` of many entities, at once.

    >>> labels(from_triples([("Q90", "P17", "Q142")], {"Q90": "Paris"}), np.array([1, 0]))
    ['Paris', 'Q142']
    """
    texts, ids = graph.entity_texts, np.asarray(entities, np.int64)
    first, stop = np.asarray(texts.offsets)[ids], np.asarray(texts.offsets)[ids + 1]
    has_label = first < stop
    has_label[has_label] = np.asarray(texts.kinds)[first[has_label]] == TextKind.LABEL
    found = np.empty(len(ids), object)
    found[has_label] = texts.values.take(pa.array(first[has_label])).to_pylist()
    found[~has_label] = graph.entities.array.take(pa.array(ids[~has_label])).to_pylist()
    return list(found)


def named(graph: KnowledgeGraph, name: str) -> list[int]:
    """Return the ids of the entities whose identifier, label or alias is `name`, sorted.

    >>> from kg_loaders import atlas
    >>> world = atlas.graph()
    >>> [world.entities.name(i) for i in named(world, "Paris")]
    ['Q830149', 'Q90']
    """
    texts = graph.entity_texts
    hits = np.asarray(pc.equal(texts.values, name).to_numpy(zero_copy_only=False), np.bool_)
    rows = np.flatnonzero(hits & np.isin(np.asarray(texts.kinds), [int(kind) for kind in NAMES]))
    own = graph.entities.find(name)
    return sorted({*texts.nodes()[rows].tolist(), *([] if own is None else [own])})


def facts(graph: KnowledgeGraph, name: str) -> list[tuple[str, str, str]]:
    """Return the triples, in words, whose head or tail is an entity called `name`.

    Raises `UnknownNodeError` where there is none.

    >>> facts(from_triples([("Padre", "works as", "baker")]), "baker")
    [('Padre', 'works as', 'baker')]
    """
    ids = named(graph, name)
    if not ids:
        raise UnknownNodeError(
            f"no entity of {graph} is called {name!r}; names are compared letter by letter"
        )
    rows = [part for i in ids for part in (graph.outgoing(i), graph.incoming(i))]
    distinct = np.unique(np.concatenate(rows), axis=0)
    return [
        (graph.label(head), graph.relation_label(relation), graph.label(tail))
        for head, relation, tail in distinct.tolist()
    ]
