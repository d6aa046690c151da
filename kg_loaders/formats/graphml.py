"""GraphML: what networkx, Gephi, yEd, APOC and `kept kg export` write, and LightRAG's graph.

A node's name, type and description are the first of its data that are called so
(`kg_loaders.formats.field_names`, the names of every format); without a name its label is its id,
which is noted. So is an edge's relation; where it has none, its id is the relation if edges share
ids or are parallel (networkx writes the keys of parallel edges there), else `related`. A key's
`<default>` is the value of nodes and edges without one. yEd's names are in y:NodeLabel and
y:EdgeLabel. LightRAG (graph_chunk_entity_relation.graphml) names no relation: each of an edge's
`keywords` is one; of descriptions that it joined by <SEP> each is one. What `kept kg export --to
lightrag` wrote is read as the graph that it was (`kg_loaders.formats.round_trip`).

Data that is there twice is kept twice: further names are aliases, and there are as many types,
descriptions and relations as there are values.

An undirected edge (`edgedefault="undirected"`, `directed="false"`) is a triple in either direction,
and noted; one that has LightRAG's keywords leads from source to target. Hyperedges and other data
are counted and left out.

The document is read as a whole (`ReaderBudget`); a node or an edge is the unit that is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.field_names import (
    ALIASES,
    DESCRIPTIONS,
    LABELS,
    RELATIONS,
    TYPES,
    first_of,
    plain_name,
)
from kg_loaders.formats.round_trip import NOTE, RELATION_NOTE, EdgeNote, NodeNote, relation_texts
from kg_loaders.rdf.nesting import check_xml
from kg_loaders.reading.lines import read_whole
from kg_loaders.records import Record, Text, TextKind, Triple

SPACE = "{http://graphml.graphdrawing.org/xmlns}"
_SPACES = re.compile(r"\{http://graphml\.graphdrawing\.org/xmlns(?:/[\w.]+)?\}")
"""Of all versions: older files of yEd have `/xmlns/graphml`, others `/xmlns/1.0rc`."""
NODE_NAMES = (*LABELS, "entity_id")
UNKNOWN_RELATION = "related"
SEPARATOR = "<SEP>"
_KEYWORDS = re.compile(rf"\s*(?:,|;|{SEPARATOR})\s*")
_CHUNK = 1 << 16
_LABEL_ELEMENTS = {"node": "NodeLabel", "edge": "EdgeLabel"}
"""yEd's elements that hold a name, in whatever namespace."""
_LABEL_BREAK = re.compile("[:;]")


def read(path: str | Path, report: DamageReport) -> Iterator[Record]:
    """The names and triples of a GraphML document."""
    file, data = str(path), read_whole(path, report.budget)
    fault = ""
    if report.policy is not DamagePolicy.STOP and b"\0" in data:
        data, fault = data[: data.find(b"\0")], "a NUL byte"
    check_xml(file, data, report.budget)
    report.units = "nodes and edges"
    events = XmlEvents(data)
    graph = _Graph(file, report)
    root = None
    for event, element in events:
        root = element if root is None else root
        yield from graph.begin(element) if event == "start" else graph.end(element)
    fault = fault or events.fault
    if root is None or _tag(root) != "graphml":
        raise SourceError(f"{file} is not GraphML{f': {fault}' if fault else ''}")
    yield from graph.rest()
    if fault:
        report.n_lines += 1
        report.reject(file, graph.n_elements + 1, 0, f"no XML: {fault}", b"")


def _tag(element: Element) -> str:
    """The name of an element of GraphML, in no namespace or in its own."""
    return _SPACES.sub("", element.tag, count=1)


class XmlEvents:
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


@dataclass
class _Edge:
    """An edge without a relation of its own, which its id may name."""

    number: int
    id: str
    source: str
    target: str
    is_directed: bool


@dataclass
class _Graph:
    """What is known of a document under way: its keys, the graphs it is in, edges that wait."""

    file: str
    report: DamageReport
    keys: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, dict[str, str]] = field(default_factory=dict)
    directed: list[bool] = field(default_factory=list)
    waiting: list[_Edge] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Of nodes that kept wrote: their identifiers in kept."""
    n_elements: int = 0
    n_undirected: int = 0
    n_unnamed: int = 0

    def begin(self, element: Element) -> Iterator[Record]:
        """Note the direction of a graph's edges; its nodes and edges follow."""
        if _tag(element) == "graph":
            self.directed.append(element.get("edgedefault", "directed") != "undirected")
        return iter(())

    def end(self, element: Element) -> Iterator[Record]:
        """The records of a node or an edge; a key and its default are noted."""
        tag = _tag(element)
        if tag == "graph" and self.directed:
            self.directed.pop()
            yield from self._of_relations(element)
        elif tag == "key":
            self._add_key(element)
        elif tag in ("node", "edge"):
            self.n_elements += 1
            self.report.n_lines += 1
            yield from self._records(element, tag)
            element.clear()
        elif tag == "hyperedge":
            self.n_elements += 1
            self.report.n_lines += 1
            self.report.skip("hyperedge (an edge of more than two ends)")
            element.clear()

    def _of_relations(self, graph: Element) -> list[Text]:
        """The texts of relations that kept wrote as data of the graph."""
        for name, value in self._data(graph, "graph"):
            texts = relation_texts(value) if plain_name(name) == RELATION_NOTE else None
            if texts is not None:
                self.report.n_further += len(texts)
                return texts
        return []

    def _add_key(self, element: Element) -> None:
        name = element.get("attr.name", "") or element.get("yfiles.type", "")
        key = element.get("id", "")
        self.keys[key] = name
        for each in element:
            if _tag(each) == "default" and (each.text or "").strip():
                for owner in ("node", "edge"):
                    if element.get("for", "all") in (owner, "all"):
                        self.defaults.setdefault(owner, {})[name] = each.text or ""

    def _records(self, element: Element, tag: str) -> Iterator[Record]:
        """Those of one element, counted; it is rejected without its ids."""
        ids = [
            element.get(name, "") for name in (("id",) if tag == "node" else ("source", "target"))
        ]
        if not all(ids):
            raw = str(element.attrib).encode()
            self.report.reject(self.file, self.n_elements, 0, "no id, source or target", raw)
            return
        data = self._data(element, tag)
        plain: dict[str, str] = {}
        further: list[tuple[str, str]] = []
        for name, value in data:
            first = plain.setdefault(plain_name(name), value)
            if first != value:
                further.append((plain_name(name), value))
        ends = [self.names.get(end, end) for end in ids]
        node_note = NodeNote.of(plain.get(NOTE, "")) if tag == "node" else None
        edge_note = EdgeNote.of(plain.get(NOTE, "")) if tag == "edge" else None
        if node_note is not None:
            self.names[ids[0]] = node_note.id
            fields = {"type": plain.get("entity_type", ""),
                      "description": plain.get("description", "")}  # fmt: skip
            records, used = node_note.records(fields, lambda text: text.split(SEPARATOR)), {*plain}
        elif edge_note is not None:
            records, used = _of_edge_note(edge_note, ends, plain), {*plain}
        elif tag == "node":
            records, used = _node(ids[0], plain)
            records += _further_texts(ids[0], further, used)
            self.n_unnamed += not used & {*NODE_NAMES}
        else:
            direction = element.get("directed", "")
            default = self.directed[-1] if self.directed else True
            is_directed = direction == "true" or (direction != "false" and default)
            records, used = self._edge(element.get("id", ""), ends, plain, further, is_directed)
        self._count_rest(data, used, "a node" if tag == "node" else "an edge")
        if records:
            self.report.n_further += len(records) - 1
        elif node_note is not None:
            self.report.skip("node that its edges name")
        yield from records

    def _data(self, element: Element, tag: str) -> list[tuple[str, str]]:
        """The data of a node or an edge with their names, those of yEd's drawing and defaults."""
        data: list[tuple[str, str]] = []
        for each in element:
            if _tag(each) != "data":
                continue
            name = self.keys.get(each.get("key", ""), each.get("key", ""))
            if (each.text or "").strip():
                data.append((name, each.text or ""))
            shape = _LABEL_ELEMENTS.get(tag)
            data += [("label", label) for label in (_drawn_labels(each, shape) if shape else [])]
        for name in ("label", "labels"):  # APOC writes them on the element, too
            if (value := element.get(name, "")) and (tag == "edge") == (name == "label"):
                data.append((name, value))
        names = {name for name, _ in data}
        data += [each for each in self.defaults.get(tag, {}).items() if each[0] not in names]
        return data

    def _edge(
        self,
        id: str,
        ends: list[str],
        data: Mapping[str, str],
        further: list[tuple[str, str]],
        is_directed: bool,
    ) -> tuple[list[Record], set[str]]:
        source, target = ends
        named = first_of(RELATIONS, data)
        used = {"keywords", *([named[0]] if named else ())}
        keywords = data.get("keywords", "").strip('" ')
        relations = [named[1]] if named else _KEYWORDS.split(keywords)
        for name, value in further:
            if name == (named[0] if named else "keywords"):
                relations += [value] if named else _KEYWORDS.split(value.strip('" '))
        relations = [relation for relation in dict.fromkeys(relations) if relation]
        if not relations:
            self.waiting.append(_Edge(self.n_elements, id, source, target, is_directed))
            return [], used
        # LightRAG extracts keywords from source to target and writes every graph as undirected
        return self._triples(source, relations, target, is_directed or named is None), used

    def _triples(
        self, source: str, relations: list[str], target: str, is_directed: bool
    ) -> list[Record]:
        triples: list[Record] = [Triple(source, each, target) for each in relations]
        if not is_directed:
            self.n_undirected += 1
            if source != target:
                triples += [Triple(target, each, source) for each in relations]
        return triples

    def rest(self) -> Iterator[Record]:
        """The edges without a relation, now that it is known what their ids are."""
        names = _are_relations(self.waiting)
        n_unnamed = 0
        for edge in self.waiting:
            is_named = names and not _NUMBERED.fullmatch(edge.id)
            relation = edge.id if is_named else UNKNOWN_RELATION
            n_unnamed += relation == UNKNOWN_RELATION
            triples = self._triples(edge.source, [relation], edge.target, edge.is_directed)
            self.report.n_further += len(triples) - 1
            yield from triples
        if self.n_unnamed:
            self.report.notes.append(
                f"{self.file}: {self.n_unnamed} nodes have no name: their id is their label"
            )
        if n_unnamed:
            self.report.notes.append(
                f"{self.file}: {n_unnamed} edges name no relation, which is {UNKNOWN_RELATION!r}"
            )
        if self.n_undirected:
            self.report.notes.append(
                f"{self.file}: {self.n_undirected} edges are undirected: each is a triple in "
                "either direction"
            )

    def _count_rest(self, data: list[tuple[str, str]], used: set[str], owner: str) -> None:
        for name, _ in data:
            if plain_name(name) not in used:
                self.report.n_further += 1
                self.report.skip(f"{name} of {owner}")


def _of_edge_note(note: EdgeNote, ends: list[str], data: Mapping[str, str]) -> list[Record]:
    """The triples that kept wrote, and one for each keyword that LightRAG added since."""
    known = {*_KEYWORDS.split(note.fields.get("keywords", ""))}
    new = [each for each in _KEYWORDS.split(data.get("keywords", "")) if each not in known]
    added = [Triple(ends[0], each, ends[1]) for each in dict.fromkeys(new) if each]
    return [*note.triples, *added]


def _drawn_labels(data: Element, name: str) -> list[str]:
    """The labels of yEd's drawing; of a group, which has two drawings, those of the first."""
    for shape in data.iter():
        labels = [each.text or "" for each in shape if each.tag.endswith(f"}}{name}")]
        if stripped := [label.strip() for label in labels if label.strip()]:
            return stripped
    return []


_NUMBERED = re.compile(r"[^\W\d]{0,12}[\W_]*[0-9]+|[0-9a-fA-F-]{16,}|")
"""Ids that only number edges: `e0`, `edge_12`, `7`, a UUID."""


def _are_relations(edges: list[_Edge]) -> bool:
    """Whether the ids of edges name relations, as the keys of parallel edges that networkx writes.

    Then edges share an id, or there are several of them, no numbers, between two nodes.
    """
    named = [edge for edge in edges if not _NUMBERED.fullmatch(edge.id)]
    ids = {edge.id for edge in named}
    ends = {(edge.source, edge.target) for edge in named}
    return len(ids) < len(named) or len(ends) < len(named)


def _node(node: str, data: Mapping[str, str]) -> tuple[list[Record], set[str]]:
    """The texts of a node, and the names of its data that they are from."""
    name, type, aliases, description = (
        first_of(names, data) for names in (NODE_NAMES, TYPES, ALIASES, DESCRIPTIONS)
    )
    label = name[1] if name else node
    records: list[Record] = [Text(node, TextKind.LABEL, label.strip('"') or label)]
    used = {each[0] for each in (name, type, aliases, description) if each}
    if type:
        parts = _LABEL_BREAK.split(type[1]) if type[0] in ("labels", ":label") else [type[1]]
        records += [Text(node, TextKind.TYPE, each.strip('"') or each) for each in parts if each]
    if "type" in data and "type" not in used:
        used.add("type")
        records.append(Text(node, TextKind.TYPE, data["type"].strip('"') or data["type"]))
    if aliases:
        parts = re.split("[;|]", aliases[1])
        records += [Text(node, TextKind.ALIAS, each) for each in parts if each.strip()]
    labels = description[1].split(SEPARATOR) if description else []
    records += [Text(node, TextKind.DESCRIPTION, each) for each in labels if each]
    return records, used


def _further_texts(node: str, data: Iterable[tuple[str, str]], used: set[str]) -> list[Record]:
    """What a node has a second time of the data that its texts are from; a name is an alias."""
    records: list[Record] = []
    for name, value in data:
        if name not in used:
            continue
        if name in TYPES:
            parts = _LABEL_BREAK.split(value) if name in ("labels", ":label") else [value]
            records += [Text(node, TextKind.TYPE, part.strip('"')) for part in parts]
        elif name in DESCRIPTIONS:
            records += [Text(node, TextKind.DESCRIPTION, each) for each in value.split(SEPARATOR)]
        elif name in ALIASES:
            records += [Text(node, TextKind.ALIAS, each) for each in re.split("[;|]", value)]
        else:
            records.append(Text(node, TextKind.ALIAS, value.strip('"') or value))
    return [each for each in records if isinstance(each, Text) and each.value.strip()]
