"""A SPARQL query over a graph, its answer cut to a few rows with labels beside identifiers."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from kg_loaders import KnowledgeGraph
from kg_loaders.errors import QueryError
from kg_loaders.rdf.sparql import QueryLimits, answer
from kg_loaders.rdf.statement_lines import BASE

LIMITS = QueryLimits(
    seconds=10, rows=10_000, memory_bytes=2 << 30, answer_bytes=4 << 20, load_seconds=60
)
MOST_CHARACTERS = 500
"""Characters of a cell."""
_OPTION = re.compile(r",? or allow more \(--\w+\)")
"""A remedy of the command line, which a caller here cannot take."""


def query_rows(graph: KnowledgeGraph, sparql: str, most: int) -> dict[str, Any]:
    """Return the columns and at most `most` rows of a SELECT, the triples of a CONSTRUCT as rows of
    three, and the truth of an ASK as one row; `n_rows` is how many there were.

    An entity or relation is `id` and `label` in one cell: "Q90 (Paris)". Raises `QueryError`.
    """
    try:
        table = answer(graph, sparql, limits=LIMITS)
    except QueryError as error:
        raise QueryError(_OPTION.sub("", str(error))) from error
    if table.kind == "ASK":
        return {"columns": ["answer"], "rows": [[str(table.is_true).lower()]], "n_rows": 1}
    if table.kind == "GRAPH":
        lines = table.data.decode().splitlines()
        rows = [[_cell(graph, part) for part in _parts(line)] for line in lines[:most]]
        return {"columns": ["subject", "predicate", "object"], "rows": rows, "n_rows": len(lines)}
    result = json.loads(table.json())
    columns, bindings = result["head"]["vars"], result["results"]["bindings"]
    rows = [[_bound(graph, row.get(name)) for name in columns] for row in bindings[:most]]
    return {"columns": columns, "rows": rows, "n_rows": len(bindings)}


def _parts(line: str) -> list[str]:
    """Subject, predicate and object of a line of N-Triples."""
    return line.removesuffix(" .").split(" ", 2)


def _cell(graph: KnowledgeGraph, term: str) -> str:
    if term.startswith("<"):
        return _named(graph, term[1:-1])
    return term[:MOST_CHARACTERS]


def _bound(graph: KnowledgeGraph, term: dict[str, str] | None) -> str:
    if term is None:
        return ""
    return (
        _named(graph, term["value"]) if term["type"] == "uri" else term["value"][:MOST_CHARACTERS]
    )


def _named(graph: KnowledgeGraph, iri: str) -> str:
    """The identifier that an IRI stands for, with its label where that is another word."""
    name = unquote(iri.removeprefix(BASE)) if iri.startswith(BASE) else iri
    entity, relation = graph.entities.find(name), graph.relations.find(name)
    if entity is not None:
        label = graph.label(entity)
    elif relation is not None:
        label = graph.relation_label(relation)
    else:
        return name
    return name if label == name else f"{name} ({label})"
