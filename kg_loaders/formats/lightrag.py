"""LightRAG's graph, `graph_chunk_entity_relation.graphml`, as its NetworkXStorage keeps it.

A node is called as its entity is (`entity_id`), with `entity_type` and `description`; two entities
have one edge, in no direction, with `keywords` and `description`. `kg_loaders.formats.graphml`
reads it, with what `kg_loaders.formats.round_trip` adds. Vectors are not written: LightRAG makes
them of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from kg_loaders.disk.writing import whole_file
from kg_loaders.errors import SourceError
from kg_loaders.formats.round_trip import (
    NOTE,
    RELATION_NOTE,
    descriptions,
    edge_note,
    entity_type,
    node_names,
    node_note,
    relation_note,
)
from kg_loaders.store import KnowledgeGraph

SEPARATOR = "<SEP>"
"""Between several descriptions of one thing."""
_NO_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_SOURCE = {"source_id": "kept", "file_path": "kept"}
_KEYS = {
    "node": ("entity_id", "entity_type", "description", "source_id", "file_path", NOTE),
    "edge": ("weight", "keywords", "description", "source_id", "file_path", NOTE),
}


def write(graph: KnowledgeGraph, path: str | Path, *, force: bool = False) -> int:
    """Write the file whole or not at all; returns the number of triples.

    Raises `SourceError` for a text that XML cannot hold.
    """
    with whole_file(path, force=force) as part, part.open("w", encoding="utf-8") as file:
        file.writelines(_lines(graph, str(path)))
    return graph.n_triples


def _lines(graph: KnowledgeGraph, path: str) -> Iterator[str]:
    """The document; nodes come before edges, as networkx writes them."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    yield _key(RELATION_NOTE, "graph", RELATION_NOTE)
    for owner, keys in _KEYS.items():
        for key in keys:
            yield _key(f"{owner[0]}_{key}", owner, key)
    yield '<graph edgedefault="undirected">\n'
    yield f'<data key="{RELATION_NOTE}">{_text(relation_note(graph), path)}</data>\n'
    names = node_names(graph)
    for number, name in enumerate(names):
        data = _data("node", _node(graph, number, name), path)
        yield f'<node id="{_text(name, path)}">{data}</node>\n'
    for (head, tail), rows in pairs(graph).items():
        data = _data("edge", _edge(graph, rows, names), path)
        source, target = _text(names[head], path), _text(names[tail], path)
        yield f'<edge source="{source}" target="{target}">{data}</edge>\n'
    yield "</graph>\n</graphml>\n"


def _node(graph: KnowledgeGraph, entity: int, name: str) -> dict[str, str]:
    """The data of an entity's node; LightRAG has a description of every one."""
    fields = {
        "type": entity_type(graph, entity),
        "description": SEPARATOR.join(descriptions(graph, entity)) or name,
    }
    return {
        "entity_id": name, "entity_type": fields["type"], "description": fields["description"],
        **_SOURCE, NOTE: node_note(graph, entity, fields),
    }  # fmt: skip


def _edge(graph: KnowledgeGraph, rows: list[list[int]], names: list[str]) -> dict[str, str]:
    """The data of the edge of these triples, which are between the same two entities."""
    labels = [graph.relation_label(relation) for _, relation, _ in rows]
    keywords = ",".join(dict.fromkeys(labels))
    sentences = [
        f"{names[head]} {label} {names[tail]}"
        for (head, _, tail), label in zip(rows, labels, strict=True)
    ]
    return {
        "weight": f"{float(len(rows))}", "keywords": keywords,
        "description": SEPARATOR.join(sentences), **_SOURCE,
        NOTE: edge_note(graph, rows, {"keywords": keywords}),
    }  # fmt: skip


def _data(owner: str, fields: Mapping[str, str], path: str) -> str:
    return "".join(
        f'<data key="{owner[0]}_{name}">{_text(value, path)}</data>'
        for name, value in fields.items()
    )


def _text(value: str, path: str) -> str:
    """A value as XML has it; raises `SourceError` for a character that XML cannot hold."""
    if _NO_XML.search(value):
        raise SourceError(f"{path}: {value!r} holds a character that XML cannot; try graphrag")
    return escape(value, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _key(id: str, owner: str, name: str) -> str:
    kind = "double" if name == "weight" else "string"
    return f'<key id="{id}" for="{owner}" attr.name="{name}" attr.type="{kind}"/>\n'


def pairs(graph: KnowledgeGraph) -> dict[tuple[int, int], list[list[int]]]:
    """The triples between any two entities, in either direction, by the ends of the first."""
    by_ends: dict[tuple[int, int], list[list[int]]] = {}
    for row in graph.triples.tolist():
        ends = row[0], row[2]
        if ends not in by_ends and ends[::-1] in by_ends:
            ends = ends[::-1]
        by_ends.setdefault(ends, []).append(row)
    return by_ends
