"""GraphML: what networkx, Gephi and `kept kg export` write, and LightRAG's graph.

A node's name is in `label`, `name` or `entity_id` (else it is its id), its type in `entity_type` or
`type`, its description in `description`. An edge's relation is in `relation`, `type` or `label`.
LightRAG (graph_chunk_entity_relation.graphml) names no relation: each of an edge's `keywords` is
one, `related` where there is none; of descriptions that it joined by <SEP> each is one. Other data
are counted and left out.

The document is read as a whole (`ReaderBudget`); a node or an edge is the unit that is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.rdf.nesting import check_xml
from kg_loaders.reading.lines import read_whole
from kg_loaders.records import Record, Text, TextKind, Triple

SPACE = "{http://graphml.graphdrawing.org/xmlns}"
NODE_NAMES = ("label", "name", "entity_id")
TYPES = ("entity_type", "type")
RELATIONS = ("relation", "type", "label")
UNKNOWN_RELATION = "related"
SEPARATOR = "<SEP>"
_KEYWORDS = re.compile(rf"\s*(?:,|;|{SEPARATOR})\s*")
_CHUNK = 1 << 16


def read(path: str | Path, report: DamageReport) -> Iterator[Record]:
    """The names and triples of a GraphML document."""
    file, data = str(path), read_whole(path, report.budget)
    fault = ""
    if report.policy is not DamagePolicy.STOP and b"\0" in data:
        data, fault = data[: data.find(b"\0")], "a NUL byte"
    check_xml(file, data, report.budget)
    report.units = "nodes and edges"
    names: dict[str, str] = {}
    events = _Events(data)
    n_found, root = 0, None
    for event, element in events:
        root = element if root is None else root
        tag = element.tag.removeprefix(SPACE)
        if event == "start":
            continue
        if tag == "key":
            names[element.get("id", "")] = element.get("attr.name", "")
        elif tag in ("node", "edge"):
            n_found += 1
            report.n_lines += 1
            yield from _records(file, n_found, element, names, report)
            element.clear()
    fault = fault or events.fault
    if root is None or root.tag.removeprefix(SPACE) != "graphml":
        raise SourceError(f"{file} is no GraphML{f': {fault}' if fault else ''}")
    if fault:
        report.n_lines += 1
        report.reject(file, n_found + 1, 0, f"no XML: {fault}", b"")


class _Events:
    """The elements of a document as they begin and end, up to a fault."""

    def __init__(self, data: bytes) -> None:
        self._data, self.fault = data, ""

    def __iter__(self) -> Iterator[tuple[str, Element]]:
        parser: XMLPullParser[Any] = XMLPullParser(["start", "end"])
        try:
            for start in range(0, len(self._data), _CHUNK):
                parser.feed(self._data[start : start + _CHUNK])
                yield from cast(Iterable[tuple[str, Element]], parser.read_events())
            parser.close()
        except (ParseError, ValueError) as error:
            self.fault = str(error)


def _records(
    file: str, number: int, element: Element, names: Mapping[str, str], report: DamageReport
) -> Iterator[Record]:
    """Those of one element, counted; it is rejected without its ids."""
    data = {
        names.get(each.get("key", ""), ""): each.text
        for each in element
        if each.tag.removeprefix(SPACE) == "data" and each.text
    }
    is_node = element.tag.removeprefix(SPACE) == "node"
    ids = [element.get(name, "") for name in (("id",) if is_node else ("source", "target"))]
    if not all(ids):
        report.reject(file, number, 0, "no id, source or target", str(element.attrib).encode())
        return
    records = _node(ids[0], data) if is_node else _edge(ids[0], ids[1], data)
    taken = {"description", "keywords", *NODE_NAMES, *RELATIONS, *TYPES}
    for name in data:
        if name not in taken:
            report.n_further += 1
            report.skip(f"{name} of {'a node' if is_node else 'an edge'}")
    report.n_further += len(records) - 1
    yield from records


def _node(node: str, data: Mapping[str, str]) -> list[Record]:
    label = next((data[name] for name in NODE_NAMES if name in data), node)
    records: list[Record] = [Text(node, TextKind.LABEL, label.strip('"') or label)]
    types = (data[name] for name in TYPES if name in data)
    records += [Text(node, TextKind.TYPE, each.strip('"') or each) for each in types]
    said = data.get("description", "").split(SEPARATOR)
    return records + [Text(node, TextKind.DESCRIPTION, each) for each in said if each]


def _edge(source: str, target: str, data: Mapping[str, str]) -> list[Record]:
    named = next((data[name] for name in RELATIONS if name in data), "")
    relations = [named] if named else _KEYWORDS.split(data.get("keywords", "").strip('" '))
    found = [relation for relation in relations if relation] or [UNKNOWN_RELATION]
    return [Triple(source, relation, target) for relation in dict.fromkeys(found)]
