"""SPARQL over a stored graph: rdflib evaluates, and looks patterns up in the graph's columns.

Nothing is loaded or copied: a query about a few entities costs the same on a graph of any size.
Statements are those of `kg_loaders.rdf.rdflib_graph.to_rdflib`: triples, and texts as rdfs:label,
skos:altLabel, rdfs:comment and rdf:type. A name that is no IRI stands behind `urn:kept:`, in
queries `kg:Q90`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import rdflib
from pyparsing import ParseException
from rdflib.plugins.sparql import prepareQuery
from rdflib.plugins.sparql.algebra import traverse
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.query import Result
from rdflib.store import Store

from kg_loaders.errors import QueryError
from kg_loaders.rdf.rdflib_graph import _PREDICATES, _node
from kg_loaders.rdf.records import RDF_TYPE, RDFS, SKOS
from kg_loaders.records import TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.texts import Texts

BASE = "urn:kept:"
PREFIXES = {"kg": BASE, "rdf": RDF_TYPE.removesuffix("type"), "rdfs": RDFS, "skos": SKOS}
_KINDS = {iri: kind for kind, iri in _PREDICATES.items()}


def query(graph: KnowledgeGraph, text: str) -> Result:
    """Return what a SPARQL query finds in `graph`: rows of SELECT, the answer of ASK, or a graph.

    `PREFIXES` need not be declared. Raises `QueryError` for what is no query, and for one that asks
    another place (SERVICE, FROM).
    """
    try:
        prepared = prepareQuery(text, initNs=PREFIXES)
    except ParseException as error:
        raise QueryError(
            f"this is no query in SPARQL: line {error.lineno}, column {error.column}: {error.msg}: "
            f"{error.line.strip()[:80]!r}"
        ) from error
    except Exception as error:
        raise QueryError(
            f"this is no query in SPARQL: {error}; declare other prefixes than "
            f"{', '.join(f'{name}:' for name in PREFIXES)}"
        ) from error
    _require_local(prepared.algebra)
    result = rdflib.Graph(store=GraphStore(graph)).query(prepared)
    assert isinstance(result, Result)
    return result


def _require_local(algebra: Any) -> None:
    """Raise `QueryError` for a query that rdflib would fetch other graphs for."""
    found: list[str] = []

    def note(part: Any) -> None:
        if isinstance(part, CompValue):
            if part.name == "ServiceGraphPattern":
                found.append("SERVICE")
            if dict.get(part, "datasetClause"):
                found.append("FROM")

    note(algebra)
    traverse(algebra, visitPre=note)
    if found:
        raise QueryError(f"{found[0]} asks another place; leave it out, the graph alone is asked")


class GraphStore(Store):  # type: ignore[misc]  # rdflib is untyped here
    """A `KnowledgeGraph` as rdflib reads it; it is never changed."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        super().__init__()
        self._graph = graph

    def bind(self, prefix: str, namespace: Any, override: bool = True) -> None:
        """Nothing: prefixes are `PREFIXES`."""

    def namespaces(self) -> Iterator[tuple[str, Any]]:
        """The prefixes."""
        yield from ((name, rdflib.URIRef(iri)) for name, iri in PREFIXES.items())

    def namespace(self, prefix: str) -> Any:
        """The IRI of a prefix, or None."""
        return rdflib.URIRef(PREFIXES[prefix]) if prefix in PREFIXES else None

    def prefix(self, namespace: Any) -> str | None:
        """The prefix of an IRI, or None."""
        return next((name for name, iri in PREFIXES.items() if iri == str(namespace)), None)

    def __len__(self, context: Any = None) -> int:
        graph = self._graph
        return graph.n_triples + len(graph.entity_texts) + len(graph.relation_texts)

    def triples(self, pattern: Any, context: Any = None) -> Iterator[Any]:
        """Every statement that fits `(subject, predicate, object)`, where None fits all."""
        subject, predicate, value = pattern
        for triple in self._facts(subject, predicate, value):
            yield triple, iter(())
        if predicate is None or str(predicate) in _KINDS:
            kind = None if predicate is None else _KINDS[str(predicate)]
            graph = self._graph
            for texts, names in (
                (graph.entity_texts, graph.entities),
                (graph.relation_texts, graph.relations),
            ):
                for triple in _text_statements(texts, names, subject, kind, value):
                    yield triple, iter(())

    def _facts(self, subject: Any, predicate: Any, value: Any) -> Iterator[Any]:
        graph = self._graph
        ids = [
            None if term is None else _id(names, term)
            for names, term in (
                (graph.entities, subject), (graph.relations, predicate), (graph.entities, value),
            )
        ]  # fmt: skip
        if -1 in ids:
            return
        head, relation, tail = ids
        if head is not None:
            rows = graph.outgoing(head)
        elif tail is not None:
            rows = graph.incoming(tail)
        else:
            rows = graph.triples
        for column, id in ((1, relation), (2, tail)):
            if id is not None:
                rows = rows[rows[:, column] == id]
        for h, r, t in rows.tolist():
            yield (
                _node(graph.entities.name(h), BASE),
                _node(graph.relations.name(r), BASE),
                _node(graph.entities.name(t), BASE),
            )


def _id(names: Any, term: Any) -> int:
    """The id of an IRI, -1 where there is none."""
    if not isinstance(term, rdflib.URIRef):
        return -1
    text = str(term)
    for name in (unquote(text.removeprefix(BASE)), text):
        found = names.find(name)
        if found is not None and _node(name, BASE) == term:
            return int(found)
    return -1


def _text_statements(
    texts: Texts, names: Any, subject: Any, kind: TextKind | None, value: Any
) -> Iterator[Any]:
    if subject is not None:
        node = _id(names, subject)
        if node < 0:
            return
        rows = np.arange(texts.offsets[node], texts.offsets[node + 1])
    elif value is not None:
        rows = _rows_of_value(texts, value)
    else:
        rows = np.arange(len(texts))
    if kind is not None:
        rows = rows[np.asarray(texts.kinds)[rows] == kind]
    nodes = np.searchsorted(texts.offsets, rows, side="right") - 1
    for row, node in zip(rows.tolist(), nodes.tolist(), strict=True):
        text_kind, text = TextKind(int(texts.kinds[row])), str(texts.values[row].as_py())
        language = texts.language_names[texts.languages[row]] or None
        term: Any = rdflib.Literal(text, lang=language)
        if text_kind is TextKind.TYPE:
            term = _node(text, BASE)
        if value is None or term == value:
            name = _node(names.name(node), BASE)
            yield name, rdflib.URIRef(_PREDICATES[text_kind]), term


def _rows_of_value(texts: Texts, value: Any) -> Any:
    """The rows whose text may be `value`."""
    text = str(value)
    wanted = {text, unquote(text.removeprefix(BASE))}
    hits = pc.is_in(texts.values, pa.array(sorted(wanted), texts.values.type))
    return np.flatnonzero(hits.to_numpy(zero_copy_only=False))
