"""Triples and nodes as JSON objects and lists, by the names of every format.

    [["Mira", "visits", "Weir"], ...]                                  triples
    [{"subject": "Mira", "predicate": "visits", "object": "Weir"}, ...]
    [{"id": "n1", "name": "Mira", "type": "Person"}, ...]              nodes
    {"nodes": [...], "links": [...]}                                   networkx, d3; also "edges"
    {"graph": {...}}, {"graphs": [...]}                                each with nodes and edges
    {"triples": [...]}                                                 also "triplets", "facts"

What a key means says `kg_loaders.formats.field_names`; keys in `properties`, `attributes` or
`metadata` count as the object's own, and an end may be an object with an identifier, as APOC writes
it. Other keys are counted and left out. The file is read as a whole (`ReaderBudget`); a triple or a
node is the unit that is counted. `record_of` is what a line of JSON says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.field_names import IDS, TEXTS, first_of, plain_name
from kg_loaders.formats.rag_graphs import first_value
from kg_loaders.formats.tables.layout import ends_of
from kg_loaders.reading.lines import JSON_FAULTS, read_whole
from kg_loaders.records import Record, Text, TextKind, Triple

UNKNOWN_RELATION = "related"
_TRIPLES = ("triples", "triplets", "facts")
_NODES = ("nodes", "vertices", "entities")
_EDGES = ("links", "edges", "relationships", "relations")
_PAIRS = (("source", "target"), ("from", "to"), ("start", "end"), ("head", "tail"))
_WRAPPERS = ("graph", "graphs")
"""Keys of a whole graph, as JSON Graph Format and OBO Graphs have them."""
_INNER = ("properties", "attributes", "metadata")
"""Objects whose keys count as those of the object that they are in."""
_OBJECTS = msgspec.json.Decoder()


def read(path: str | Path, report: DamageReport) -> Iterator[Record]:
    """The triples and texts of a JSON file; `SourceError` for one that holds neither."""
    file, data = str(path), read_whole(path, report.budget)
    document, rest = first_value(file, data, report)
    report.units = "triples and nodes"
    items = _items(document)
    if items is None:
        raise SourceError(
            f"{file} holds no list of triples or nodes: write [[head, relation, tail], ...], or "
            "objects with the keys head, relation and tail"
        )
    n_unnamed = 0
    for number, item in enumerate(items, 1):
        report.n_lines += 1
        records, unused, is_named = _item_records(item)
        if not records and _is_bare_node(item):
            report.skip("node without a name, label or description")
            continue
        if not records:
            raw = json.dumps(item)[:4096].encode()
            report.reject(file, number, 0, "neither a triple nor a node with a text", raw)
            continue
        n_unnamed += not is_named
        report.n_further += len(records) - 1 + len(unused)
        for name in unused:
            report.skip(f"key {name}")
        yield from records
    if rest:
        report.n_lines += 1
        number, offset, raw, reason = rest
        report.reject(file, number, offset, reason, raw)
    if n_unnamed:
        report.notes.append(
            f"{file}: {n_unnamed} edges name no relation, which is {UNKNOWN_RELATION!r}"
        )


def _is_bare_node(item: Any) -> bool:
    """Whether an item is a node without a text, and not a triple that lacks an end."""
    values = item.items() if isinstance(item, dict) else ()
    fields = {plain_name(key): value for key, value in values}
    if ends_of(dict.fromkeys(fields, 0)) is not None:
        return False
    node = first_of(IDS, fields)
    return node is not None and bool(_name(node[1]))


def _items(document: Any) -> list[Any] | None:
    """The triples and nodes of a document; None where it is none of the forms."""
    if isinstance(document, list):
        return document
    if not isinstance(document, dict):
        return None
    lists = {name: _listed(value) for name, value in document.items()}
    lists = {name: value for name, value in lists.items() if isinstance(value, list)}
    triples = first_of(_TRIPLES, lists)
    nodes, edges = first_of(_NODES, lists), first_of(_EDGES, lists)
    item_lists = [part[1] for part in (triples, nodes, edges) if part is not None]
    if not item_lists and isinstance(document.get("graph"), dict):
        return _items({k: v for k, v in document["graph"].items() if k not in _WRAPPERS})
    if not item_lists and isinstance(document.get("graphs"), list):
        item_lists = [_items({"graph": graph}) or [] for graph in document["graphs"]]
    return [item for part in item_lists for item in part] if item_lists else None


def _listed(value: Any) -> Any:
    """Nodes that are written by their identifiers, each with its own."""
    is_by_id = isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())
    return [{"id": key, **each} for key, each in value.items()] if is_by_id else value


def _item_records(item: Any) -> tuple[list[Record], list[str], bool]:
    """The records of an item, the keys that were left out, and whether a relation was named."""
    if isinstance(item, list | tuple):
        names = [_name(value) for value in item]
        if len(names) == 3 and all(names):
            return [Triple(*names)], [], True
        return [], [], True
    if not isinstance(item, dict):
        return [], [], True
    return _object_records(item)


def record_of(line: bytes) -> list[Record]:
    """The records of a line of JSON all of whose keys are known; none for another.

    >>> record_of(b'{"subject": "Mira", "predicate": "visits", "object": "Weir"}')
    [Triple(head='Mira', relation='visits', tail='Weir')]
    """
    try:
        item = _OBJECTS.decode(line)
    except JSON_FAULTS:
        return []
    records, unused, is_named = _item_records(item)
    return records if is_named and not unused else []


def _object_records(item: Mapping[str, Any]) -> tuple[list[Record], list[str], bool]:
    fields: dict[str, Any] = {}
    inner = [part for name in _INNER if isinstance(part := item.get(name), dict)]
    for part in (item, *inner):
        for key, value in part.items():
            if key not in _INNER:
                fields.setdefault(plain_name(key), value)
    is_apoc = fields.get("type") in ("relationship", "node")
    if is_apoc:
        del fields["type"]
    places = {name: position for position, name in enumerate(fields)}
    ends = ends_of(places)
    if ends is None:
        pair = next((p for p in _PAIRS if p[0] in fields and p[1] in fields), None)
        if pair is None:
            return (*_node_records(fields), True)
        names = [_name(fields[name]) for name in pair]
        if not all(names):
            return [], [], True
        key = fields.get("key")
        relation = key if isinstance(key, str) and key else UNKNOWN_RELATION
        unused = [name for name in fields if name not in (*pair, "key", "id")]
        return [Triple(names[0], relation, names[1])], unused, relation != UNKNOWN_RELATION
    names = [_name(fields[name]) for name in ends]
    if not all(names):
        return [], [], True
    used = {*ends, "id"} if is_apoc else {*ends}
    return [Triple(*names)], [name for name in fields if name not in used], True


def _node_records(fields: Mapping[str, Any]) -> tuple[list[Record], list[str]]:
    node = first_of((*IDS, "key"), fields)
    name = _name(node[1]) if node else ""
    if node is None or not name:
        return [], []
    records: list[Record] = []
    used = {node[0]}
    for kind, names in TEXTS.items():
        value = first_of([n for n in names if n not in used], fields)
        if value is not None:
            used.add(value[0])
            records += [Text(name, kind, text) for text in _texts(value[1], kind)]
    return records, [key for key in fields if key not in used]


def _texts(value: Any, kind: TextKind) -> Sequence[str]:
    values = (
        value if isinstance(value, list) and kind in (TextKind.ALIAS, TextKind.TYPE) else [value]
    )
    return [text for text in dict.fromkeys(map(_name, values)) if text]


def _name(value: Any) -> str:
    """A value as a name: a text, a whole number, or the identifier of an object; "" for others."""
    if isinstance(value, dict):
        fields = {plain_name(key): part for key, part in value.items()}
        name = first_of((*IDS, "name"), fields)
        return _name(name[1]) if name and not isinstance(name[1], dict) else ""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not (isinstance(value, str) or (is_number and abs(value) < 10**20)):
        return ""
    text = str(value)
    return text if text.isascii() or _is_text(text) else ""


def _is_text(value: str) -> bool:
    """Whether a string can be written as UTF-8: JSON may hold half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
