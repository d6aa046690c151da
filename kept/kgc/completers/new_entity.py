"""An entity that is not in the graph: put beside it with a text, a few facts, or both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.errors import ConfigError
from kept.kge.prediction import UNKNOWN
from kept.kge.splits import Splits
from kg_loaders import (
    KnowledgeGraph,
    Record,
    SourceError,
    Text,
    TextKind,
    Triple,
    graph_from_records,
)
from kg_loaders.damage import DamageReport
from kg_loaders.entity import relation_named
from kg_loaders.errors import UnknownNodeError
from kg_loaders.formats import tsv


def missing_entity(graph: KnowledgeGraph, question: tuple[str, str, str]) -> str:
    """The one entity of the question that the graph lacks; ConfigError: none, or two."""
    ends = [name for name in (question[0], question[2]) if name != UNKNOWN]
    missing = [name for name in ends if name not in graph.entities]
    if len(missing) != 1:
        fault = "are both missing from" if missing else "is in"
        raise ConfigError(
            f"{' and '.join(map(repr, ends))} {fault} the graph; --text and --facts are for one "
            "entity that is not in it"
        )
    return missing[0]


def with_entity(
    splits: Splits, name: str, *, text: str | None = None, facts: Path | None = None
) -> Splits:
    """The same splits with one entity more; its facts join the training split, to be read.

    `text` is "name: description", or a description alone. A line of `facts` is head, relation,
    tail, of which one end is `name`, and the rest the graph knows by identifiers or labels. Raises
    `SourceError` otherwise.
    """
    graph = splits.graph
    added = [] if facts is None else list(_facts(graph, name, facts))
    grown = graph_from_records(
        [*records_of(graph), *added, *_texts(name, text)], sources=(*graph.manifest.sources, name)
    )
    new_ids = np.array([grown.entities.id(one) for one in graph.entities], np.int32)
    relations = np.array([grown.relations.id(one) for one in graph.relations], np.int32)

    def moved(rows: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.stack([new_ids[rows[:, 0]], relations[rows[:, 1]], new_ids[rows[:, 2]]], 1)

    new_triples = [
        (grown.entities.id(h), grown.relations.id(r), grown.entities.id(t)) for h, r, t in added
    ]
    train = np.concatenate([moved(splits.train), np.array(new_triples, np.int32).reshape(-1, 3)])
    return Splits(grown, train, moved(splits.valid), moved(splits.test))


def records_of(graph: KnowledgeGraph) -> Iterator[Record]:
    """Triples, labels and descriptions of a graph."""
    entities, relations = list(graph.entities), list(graph.relations)
    for head, relation, tail in graph.triples.tolist():
        yield Triple(entities[head], relations[relation], entities[tail])
    for i, name in enumerate(entities):
        yield Text(name, TextKind.LABEL, graph.label(i), "en")
        description = graph.description(i)
        if description:
            yield Text(name, TextKind.DESCRIPTION, description, "en")
    for i, name in enumerate(relations):
        yield Text(name, TextKind.LABEL, graph.relation_label(i), "en", is_relation=True)


def _texts(name: str, text: str | None) -> Iterator[Text]:
    label, colon, description = (text or "").partition(": ")
    if not colon:
        label, description = name, text or ""
    yield Text(name, TextKind.LABEL, label.strip() or name, "en")
    if description.strip():
        yield Text(name, TextKind.DESCRIPTION, description.strip(), "en")


def _facts(graph: KnowledgeGraph, name: str, path: Path) -> Iterator[Triple]:
    report, n_read = DamageReport(), 0
    for record in tsv.read(path, report):
        if not isinstance(record, Triple):
            continue
        n_read += 1
        position = f"{path}, line {report.n_lines}"
        others = [end for end in (record.head, record.tail) if end != name]
        if len(others) != 1:
            raise SourceError(f"{position}: {record} has not {name!r} at one end; drop the line")
        try:
            other, relation = graph[others[0]].id, relation_named(graph, record.relation)
        except UnknownNodeError as error:
            raise SourceError(f"{position}: {error}; drop the line or correct it") from None
        ends = [name if end == name else other for end in (record.head, record.tail)]
        yield Triple(ends[0], relation, ends[1])
    if not n_read:
        raise SourceError(f"{path} holds no triple; write head, relation, tail in a line")
