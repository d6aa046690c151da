"""What kept adds to the graphs of LightRAG and GraphRAG, so that reading gives the same graph.

These programs name an entity by one text and a relation by none. So a node that kept writes has
`kept`, a JSON text with its identifier and all its texts, an edge one with its triples, and the
graph one with the texts of relations. The programs keep data that they do not know. What they
change themselves (a description, a type, keywords) is in their own fields, which then count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph
from kg_loaders.texts import Texts

NOTE, RELATION_NOTE = "kept", "kept_relations"
"""The names of the data of nodes and edges, and of the graph."""
UNTYPED = "UNKNOWN"
"""What LightRAG calls the type of an entity that has none."""


# ---- writing -------------------------------------------------------------------------------------
def node_names(graph: KnowledgeGraph) -> list[str]:
    """Return a name of each entity that no other has: its label, with its identifier if shared.

    >>> rows = [("a", "r", "b"), ("b", "r", "c")]
    >>> node_names(KnowledgeGraph.from_triples(rows, {"a": "Paris", "b": "Paris", "c": "Rome"}))
    ['Paris (a)', 'Paris (b)', 'Rome']
    """
    labels = [graph.label(i) for i in range(graph.n_entities)]
    counts = Counter(labels)
    taken = {label for label, n in counts.items() if n == 1}
    names = []
    for number, label in enumerate(labels):
        name = label
        if counts[label] > 1:
            name = f"{label} ({graph.entities.name(number)})"
            while name in taken:
                name += " *"
            taken.add(name)
        names.append(name)
    return names


def entity_type(graph: KnowledgeGraph, entity: int) -> str:
    """The label of an entity's first type; `UNTYPED` where it has none."""
    return next(iter(graph.type_labels(entity)), UNTYPED)


def descriptions(graph: KnowledgeGraph, entity: int) -> list[str]:
    """All descriptions of an entity, the best first."""
    return [value for value, _ in graph.entity_texts.of(entity, TextKind.DESCRIPTION)]


def node_note(graph: KnowledgeGraph, entity: int, fields: Mapping[str, str]) -> str:
    """The note of a node; `fields` are the program's own as they are written, to tell changes."""
    values = {"id": graph.entities.name(entity), "texts": _rows(graph.entity_texts, entity)}
    return _json({**values, "fields": dict(fields)})


def edge_note(graph: KnowledgeGraph, triples: Sequence[Sequence[int]], fields: Any) -> str:
    """The note of an edge: its triples by identifiers, and the program's own `fields`."""
    rows = [
        [graph.entities.name(head), graph.relations.name(relation), graph.entities.name(tail)]
        for head, relation, tail in triples
    ]
    return _json({"triples": rows, "fields": dict(fields)})


def relation_note(graph: KnowledgeGraph) -> str:
    """The note of the graph: the texts of its relations by identifier."""
    names = graph.relations.array.to_pylist()
    return _json({name: _rows(graph.relation_texts, i) for i, name in enumerate(names)})


def _rows(texts: Texts, node: int) -> list[list[Any]]:
    """The texts of a node: kind, value, language, count."""
    start, stop = int(texts.offsets[node]), int(texts.offsets[node + 1])
    return [
        [
            int(texts.kinds[row]),
            str(texts.values[row].as_py()),
            texts.language_names[texts.languages[row]],
            int(texts.counts[row]),
        ]
        for row in range(start, stop)
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


# ---- reading -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class NodeNote:
    """What a node is in kept: its identifier, its texts, and the fields as kept wrote them."""

    id: str
    texts: tuple[Text, ...]
    fields: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> NodeNote | None:
        """Return what `node_note` wrote; None for anything else."""
        values = _read(text)
        if not isinstance(values, dict):
            return None
        name, fields = values.get("id"), values.get("fields")
        rows = _texts(name, values.get("texts"), is_relation=False)
        if rows is None or fields is None or not _are_fields(fields):
            return None
        return cls(str(name), rows, fields)

    def records(self, fields: Mapping[str, str], split: Callable[[str], list[str]]) -> list[Record]:
        """Return the texts; those whose field has another value now are what it says now.

        `fields` are `type` and `description`, `split` cuts the latter into its parts.
        """
        kinds = {"type": TextKind.TYPE, "description": TextKind.DESCRIPTION}
        changed = {
            kind: fields.get(name, "")
            for name, kind in kinds.items()
            if _plain(fields.get(name, "")) != _plain(self.fields.get(name, ""))
        }
        records: list[Record] = [text for text in self.texts if text.kind not in changed]
        for kind, value in changed.items():
            parts = split(value) if kind is TextKind.DESCRIPTION else [value]
            parts = [part for part in parts if part.strip() and part != UNTYPED]
            records += [Text(self.id, kind, part) for part in parts]
        return records


@dataclass(frozen=True)
class EdgeNote:
    """What an edge is in kept: its triples, and the fields as kept wrote them."""

    triples: tuple[Triple, ...]
    fields: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> EdgeNote | None:
        """Return what `edge_note` wrote; None for anything else."""
        values = _read(text)
        if not isinstance(values, dict) or not _are_fields(values.get("fields")):
            return None
        rows = values.get("triples")
        if not isinstance(rows, list) or not all(map(_is_triple, rows)):
            return None
        return cls(tuple(Triple(*row) for row in rows), values["fields"])


def relation_texts(text: str) -> list[Text] | None:
    """Return the texts of relations that `relation_note` wrote; None for anything else."""
    values = _read(text)
    if not isinstance(values, dict):
        return None
    records: list[Text] = []
    for name, rows in values.items():
        texts = _texts(name, rows, is_relation=True)
        if texts is None:
            return None
        records += texts
    return records


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(name: Any, rows: Any, *, is_relation: bool) -> tuple[Text, ...] | None:
    if not isinstance(name, str) or not name or not isinstance(rows, list):
        return None
    texts = [_text(name, row, is_relation=is_relation) for row in rows]
    return None if None in texts else tuple(text for text in texts if text is not None)


def _text(name: str, row: Any, *, is_relation: bool) -> Text | None:
    if not isinstance(row, list) or len(row) != 4:
        return None
    kind, value, language, count = row
    is_kind = type(kind) is int and kind in TextKind.__members__.values()
    is_text = isinstance(value, str) and value and isinstance(language, str)
    is_count = type(count) is int and 0 <= count < 1 << 31
    if not (is_kind and is_text and is_count):
        return None
    return Text(name, TextKind(kind), value, language, count, is_relation)


def _is_triple(row: Any) -> bool:
    is_row = isinstance(row, list) and len(row) == 3
    return is_row and all(isinstance(part, str) and part for part in row)


def _are_fields(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def _plain(value: str) -> str:
    """A value with the line ends that XML gives every text."""
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()
