"""Graphs that language models extracted, as LlamaIndex and neo4j-graphrag write them (JSON).

    LlamaIndex, property_graph_store.json: {"nodes": {id: {"name", "label", "properties"}},
        "relations": {key: {"source_id", "label", "target_id"}}, "triplets": [[id, label, id]]}
    LlamaIndex, graph_store.json (the older index): {"graph_dict": {subject: [[relation, object]]}}
    neo4j-graphrag, a `Neo4jGraph`: {"nodes": [{"id", "label", "properties"}],
        "relationships": [{"start_node_id", "type", "end_node_id"}]}

A node's name is its label text, its label its type, its description a description. Chunks of text
and documents are not entities: they, and relations that touch them, are counted and left out, and
so are properties and vectors. LightRAG's graph is GraphML: `kg_loaders.formats.graphml`.

The document is read as a whole (`ReaderBudget`); a node or a relation is the unit that is counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.rdf.nesting import check_json
from kg_loaders.reading.lines import BOM, read_whole
from kg_loaders.reading.repeated_keys import json_reason
from kg_loaders.records import Record, Text, TextKind, Triple

NO_ENTITIES = {"text_chunk", "Chunk", "Document"}
NO_TYPES = {"", "entity", "__Entity__", "__Node__", "__KGBuilder__"}
NAMES = ("name", "title", "label")
DESCRIPTIONS = ("description", "entity_description")


class _Node(NamedTuple):
    id: Any
    name: Any
    label: str
    properties: Any


def read_llamaindex(path: str | Path, report: DamageReport) -> Iterator[Record]:
    """The entities and triples of either of LlamaIndex's stores."""
    yield from _read(path, report, _llamaindex, "nodes and relations, or graph_dict")


def read_neo4j_graphrag(path: str | Path, report: DamageReport) -> Iterator[Record]:
    """The entities and triples of a `Neo4jGraph`."""
    yield from _read(path, report, _neo4j_graphrag, "lists of nodes and relationships")


def _read(
    path: str | Path,
    report: DamageReport,
    parts: Callable[[dict[str, Any]], tuple[list[_Node], list[Any]] | None],
    wanted: str,
) -> Iterator[Record]:
    file = str(path)
    document, rest = first_value(file, read_whole(path, report.budget), report)
    report.units = "nodes and relations"
    graph_parts = parts(document) if isinstance(document, dict) else None
    if graph_parts is None:
        raise SourceError(f"{file} has no {wanted}; is it of another program?")
    nodes, relations = graph_parts
    chunks = {node.id for node in nodes if isinstance(node.id, str) and node.label in NO_ENTITIES}
    for number, node in enumerate(nodes, 1):
        report.n_lines += 1
        yield from _texts(file, number, node, report)
    for number, ends in enumerate(relations, len(nodes) + 1):
        report.n_lines += 1
        if not _are_names(ends, 3):
            report.reject(file, number, 0, "no relation between two nodes", _printable(ends))
        elif chunks.intersection((ends[0], ends[2])):
            report.skip("relation of a text chunk or a document")
        else:
            yield Triple(*ends)
    if rest:
        report.n_lines += 1
        number, offset, raw, reason = rest
        report.reject(file, number, offset, reason, raw)


def first_value(
    file: str, data: bytes, report: DamageReport
) -> tuple[Any, tuple[int, int, bytes, str] | None]:
    """Return the first JSON value of a file, and what follows it: line, byte, bytes and reason."""
    check_json(file, data, report.budget)
    start = len(BOM) if data.startswith(BOM) else 0
    try:
        text = data[start:].decode()
    except UnicodeDecodeError as error:
        text = data[start : start + error.start].decode()
    begin = len(text) - len(text.lstrip())
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        remedy = "" if report.policy is DamagePolicy.STOP else " (nothing before it is whole)"
        reason = json_reason(error)
        raise SourceError(f"{file} is not JSON: {reason}{remedy}; write it anew") from error
    offset = start + len(text[:end].encode())
    raw = data[offset:].strip()
    if not raw:
        return value, None
    return value, (1 + text[:end].count("\n"), offset, raw, "more than one JSON value")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        name = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"the key {name!r} occurs twice in one object")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)


def _llamaindex(document: dict[str, Any]) -> tuple[list[_Node], list[Any]] | None:
    if isinstance(facts := document.get("graph_dict"), dict):
        rows = [
            (subject, *pair) if isinstance(pair, list) else (subject, pair)
            for subject, pairs in facts.items()
            for pair in (pairs if isinstance(pairs, list) else [pairs])
        ]
        return [], rows
    nodes, relations = document.get("nodes"), document.get("relations")
    triplets = document.get("triplets", [])
    if not (isinstance(nodes, dict) and isinstance(relations, dict) and isinstance(triplets, list)):
        return None
    nodes_read = [_node(id, node, node_name(node)) for id, node in nodes.items()]
    ends = [_fields(each, "source_id", "label", "target_id") for each in relations.values()]
    stored = {tuple(each) for each in ends if _are_names(each, 3)}
    ends += [each for each in triplets if not (_are_names(each, 3) and tuple(each) in stored)]
    return nodes_read, ends


def _neo4j_graphrag(document: dict[str, Any]) -> tuple[list[_Node], list[Any]] | None:
    nodes, relations = document.get("nodes"), document.get("relationships")
    if not (isinstance(nodes, list) and isinstance(relations, list)):
        return None
    nodes_read = [
        _node(each.get("id") if isinstance(each, dict) else None, each, None) for each in nodes
    ]
    return nodes_read, [_fields(each, "start_node_id", "type", "end_node_id") for each in relations]


def node_name(node: Any) -> Any:
    """What a LlamaIndex node is called; None where it does not say."""
    return node.get("name") if isinstance(node, dict) else None


def _node(id: Any, node: Any, name: Any) -> _Node:
    fields = node if isinstance(node, dict) else {}
    label = fields.get("label", "")
    return _Node(id, name, label if isinstance(label, str) else "", fields.get("properties") or {})


def _fields(each: Any, *names: str) -> Any:
    return tuple(each.get(name) for name in names) if isinstance(each, dict) else each


def _are_names(values: Any, n: int) -> bool:
    """Whether these are n texts that are not empty."""
    is_list = isinstance(values, list | tuple) and len(values) == n
    return is_list and all(isinstance(value, str) and value for value in values)


def _texts(file: str, number: int, node: _Node, report: DamageReport) -> Iterator[Text]:
    """Name, type and description of a node, each counted."""
    if not (_are_names([node.id], 1) and isinstance(node.properties, dict)):
        report.reject(file, number, 0, "a node without an id", _printable(node))
        return
    if node.label in NO_ENTITIES:
        report.skip("text chunk or document")
        return
    properties = {key: text for key, text in node.properties.items() if _are_names([text], 1)}
    name = node.name or next((properties[key] for key in NAMES if key in properties), node.id)
    texts = [Text(node.id, TextKind.LABEL, name)] if _are_names([name], 1) else []
    if node.label not in NO_TYPES:
        texts.append(Text(node.id, TextKind.TYPE, node.label))
    description = next((properties[key] for key in DESCRIPTIONS if key in properties), "")
    if description:
        texts.append(Text(node.id, TextKind.DESCRIPTION, description))
    if not texts:
        report.skip("node without a name")
        return
    report.n_further += len(texts) - 1
    yield from texts


def _printable(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True)[:200].encode()
