"""LightRAG's graph, `graph_chunk_entity_relation.graphml`, as its NetworkXStorage keeps it.

A node is called as its entity is (`entity_id`), with `entity_type` and `description`; two entities
have one edge, in no direction, with `keywords` and `description`. `kg_loaders.formats.graphml`
reads it, with what `kg_loaders.formats.round_trip` adds. Vectors are not written: LightRAG makes
them of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    def text(value: str) -> str:
        if _NO_XML.search(value):
            raise SourceError(f"{path}: {value!r} holds a character that XML cannot; try graphrag")
        return escape(value, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})

    def data(owner: str, fields: dict[str, str]) -> str:
        return "".join(
            f'<data key="{owner[0]}_{name}">{text(value)}</data>' for name, value in fields.items()
        )

    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    yield _key(RELATION_NOTE, "graph", RELATION_NOTE)
    for owner, keys in _KEYS.items():
        for key in keys:
            yield _key(f"{owner[0]}_{key}", owner, key)
    yield '<graph edgedefault="undirected">\n'
    yield f'<data key="{RELATION_NOTE}">{text(relation_note(graph))}</data>\n'
    names = node_names(graph)
    for number, name in enumerate(names):
        fields = {
            "type": entity_type(graph, number),
            "description": SEPARATOR.join(descriptions(graph, number)),
        }
        own = {"entity_id": name, "entity_type": fields["type"],
               "description": fields["description"] or name, "source_id": "kept",
               "file_path": "kept"}  # fmt: skip
        fields["description"] = own["description"]
        own[NOTE] = node_note(graph, number, fields)
        yield f'<node id="{text(name)}">{data("node", own)}</node>\n'
    for (head, tail), rows in pairs(graph).items():
        labels = [graph.relation_label(row[1]) for row in rows]
        keywords = ",".join(dict.fromkeys(labels))
        said = [
            f"{names[row[0]]} {label} {names[row[2]]}"
            for row, label in zip(rows, labels, strict=True)
        ]
        own = {"weight": f"{float(len(rows))}", "keywords": keywords,
               "description": SEPARATOR.join(said), "source_id": "kept",
               "file_path": "kept"}  # fmt: skip
        own[NOTE] = edge_note(graph, rows, {"keywords": keywords})
        yield (
            f'<edge source="{text(names[head])}" target="{text(names[tail])}">'
            f"{data('edge', own)}</edge>\n"
        )
    yield "</graph>\n</graphml>\n"


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
