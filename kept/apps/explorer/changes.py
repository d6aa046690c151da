"""What if: a graph with facts deleted, added, edited or shuffled, over the same vocabularies.

Axis legend: triple.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from kept.apps.explorer.questions import Change
from kept.errors import ConfigError
from kept.inputs.controls.shuffles import shuffle_objects
from kept.randomness import generator
from kg_loaders import KnowledgeGraph
from kg_loaders.records import TextKind
from kg_loaders.texts import Texts

MOST_TRIPLES = 5_000_000
"""A changed graph is made anew in memory: larger ones are not changed here."""

Triple = tuple[int, int, int]


def changed_graph(graph: KnowledgeGraph, changes: Sequence[Change]) -> KnowledgeGraph:
    """Return `graph` after `changes`, one after the other; its own ids stay valid.

    Raises `ConfigError` for a name that the graph does not have, a fact that is not there (or,
    added, is there already), and a graph of more than `MOST_TRIPLES`.
    """
    if changes and graph.n_triples > MOST_TRIPLES:
        raise ConfigError(
            f"the graph has {graph.n_triples:,} facts; up to {MOST_TRIPLES:,} are changed here: "
            "make a smaller graph, or change its files and build it again"
        )
    for change in changes:
        graph = _changed(graph, change)
    return graph


def _changed(graph: KnowledgeGraph, change: Change) -> KnowledgeGraph:
    if change.do == "shuffle":
        return shuffle_objects(graph, generator(change.seed, "explorer", "shuffled objects"))
    if change.fact is None:
        raise ConfigError(f"to {change.do} a fact, say which: head, relation and tail")
    fact = triple_of(graph, change.fact)
    if change.do == "add":
        return graph.with_triples(_with(graph, fact), note="a fact added")
    rest = _without(graph, fact)
    if change.do == "delete":
        return graph.with_triples(rest, note="a fact deleted")
    if change.tail is None:
        raise ConfigError("to edit a fact, say its new tail")
    edited = (fact[0], fact[1], entity_of(graph, change.tail))
    if edited == fact or bool(graph.contains(np.array([edited], np.int32))[0]):
        raise ConfigError(f"{_fact_text(change.fact[:2], change.tail)} is in the graph already")
    return graph.with_triples(np.vstack([rest, [edited]]), note="a fact edited")


def _with(graph: KnowledgeGraph, fact: Triple) -> NDArray[np.int32]:
    added = np.array([fact], np.int32)
    if bool(graph.contains(added)[0]):
        raise ConfigError("that fact is in the graph already")
    return np.concatenate([graph.triples, added])


def _without(graph: KnowledgeGraph, fact: Triple) -> NDArray[np.int32]:
    row = int(graph.find(np.array([fact], np.int32))[0])
    if row < 0:
        raise ConfigError("that fact is not in the graph: it may have been changed before")
    return np.delete(graph.triples, row, axis=0)


def triple_of(graph: KnowledgeGraph, fact: Sequence[str]) -> Triple:
    """Return the ids of a fact given by identifiers or labels; raises `ConfigError`."""
    head, relation, tail = fact
    return entity_of(graph, head), relation_of(graph, relation), entity_of(graph, tail)


def entity_of(graph: KnowledgeGraph, name: str) -> int:
    """Return the entity with that identifier, else the only one with that label."""
    entity = graph.entities.find(name)
    if entity is not None:
        return int(entity)
    rows = _labelled(graph.entity_texts, name)
    if len(rows) == 1:
        return rows[0]
    if rows:
        names = ", ".join(graph.entities.name(row) for row in rows[:5])
        raise ConfigError(f"{len(rows)} entities are called {name!r}; give one of {names}")
    raise ConfigError(
        f"no entity is called {name!r}; a model knows the entities of its graph alone: give the "
        "identifier or label of one"
    )


def relation_of(graph: KnowledgeGraph, name: str) -> int:
    """Return the relation with that identifier, else the only one with that label."""
    relation = graph.relations.find(name)
    if relation is not None:
        return int(relation)
    rows = _labelled(graph.relation_texts, name)
    if len(rows) == 1:
        return rows[0]
    raise ConfigError(f"{len(rows)} relations are called {name!r}; give the identifier of one")


def _labelled(texts: Texts, name: str) -> list[int]:
    """The nodes one of whose labels is `name`, in their order."""
    hits = np.asarray(pc.fill_null(pc.equal(texts.values, name), False))
    rows = np.flatnonzero(hits & (np.asarray(texts.kinds) == TextKind.LABEL))
    nodes: list[int] = np.unique(np.searchsorted(texts.offsets, rows, side="right") - 1).tolist()
    return nodes


def _fact_text(start: Sequence[str], tail: str) -> str:
    return f"{' — '.join(start)} → {tail}"
