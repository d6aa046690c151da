"""A stored graph as N-Triples, whole or only the statements that some patterns match.

A triple is a statement of three IRIs; a label, alias, description or type of a node is one of
rdfs:label, skos:altLabel, rdfs:comment or rdf:type. An identifier that is not an IRI stands behind
`urn:kept:`, percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyoxigraph as ox
from numpy.typing import NDArray

from kg_loaders.rdf.records import RDF_TYPE, RDFS, SKOS
from kg_loaders.records import TextKind
from kg_loaders.store import KnowledgeGraph
from kg_loaders.texts import Texts
from kg_loaders.vocabulary import Vocabulary

BASE = "urn:kept:"
PREDICATES = {
    TextKind.LABEL: f"{RDFS}label",
    TextKind.ALIAS: f"{SKOS}altLabel",
    TextKind.DESCRIPTION: f"{RDFS}comment",
    TextKind.TYPE: RDF_TYPE,
}
LINES_AT_ONCE = 1 << 16
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*")


class Pattern(NamedTuple):
    """What a statement must have: None allows anything.

    `subject` is an IRI, `predicates` are IRIs, `value` is an IRI or the text of a literal.
    """

    subject: str | None = None
    predicates: frozenset[str] | None = None
    value: str | None = None


ANYTHING = Pattern()


def iri_of(name: str, base: str = BASE) -> str:
    """Return the IRI of an identifier: itself where it is one, else percent-encoded after `base`.

    >>> iri_of("http://x/a"), iri_of("New York")
    ('http://x/a', 'urn:kept:New%20York')
    """
    if _IRI.fullmatch(name):
        try:
            ox.NamedNode(name)
        except ValueError:
            pass  # looks like an IRI and is none: http://[
        else:
            return name
    return base + quote(name, safe="")


def literal_of(value: str, language: str) -> str:
    """Return a literal as N-Triples writes it.

    >>> print(literal_of('"a"', "en"))
    "\\"a\\""@en
    """
    return str(ox.Literal(value, language=language_tag(language)))


@cache
def language_tag(language: str) -> str | None:
    """Return a language as RDF writes it; None where RDF has no tag for it.

    >>> language_tag("en_US"), language_tag("en"), language_tag("no language")
    ('en-us', 'en', None)
    """
    tag = language.replace("_", "-").lower()
    try:
        return ox.Literal("", language=tag).language if tag else None
    except ValueError:
        return None


def statement_lines(
    graph: KnowledgeGraph, patterns: Collection[Pattern] = (ANYTHING,)
) -> Iterator[bytes]:
    """Yield N-Triples, many lines at once: every statement that fits at least one pattern."""
    rows = _distinct([_triple_rows(graph, pattern) for pattern in patterns], graph.n_triples)
    for start in range(0, len(rows), LINES_AT_ONCE):
        part = graph.triples[rows[start : start + LINES_AT_ONCE]]
        subjects, predicates, values = (
            _nodes(part[:, column], names)
            for column, names in enumerate((graph.entities, graph.relations, graph.entities))
        )
        yield _lines(subjects, predicates, values)
    for texts, names in (
        (graph.entity_texts, graph.entities), (graph.relation_texts, graph.relations),
    ):  # fmt: skip
        yield from _text_lines(texts, names, patterns)


def n_statements(graph: KnowledgeGraph) -> int:
    """Return how many statements the whole graph has."""
    return graph.n_triples + len(graph.entity_texts) + len(graph.relation_texts)


# ---- rows of patterns ----------------------------------------------------------------------------
def _ids(names: Vocabulary, iri: str) -> list[int]:
    """The ids of the names whose IRI this is: there may be two, `a` and `urn:kept:a`."""
    candidates = dict.fromkeys((iri, unquote(iri.removeprefix(BASE))))
    ids = (names.find(name) for name in candidates if iri_of(name) == iri)
    return [id for id in ids if id is not None]


def _triple_rows(graph: KnowledgeGraph, pattern: Pattern) -> NDArray[np.int64]:
    """The rows of `graph.triples` that fit."""
    n = graph.n_triples
    if pattern.subject is not None:
        spans = [
            np.arange(graph.out_offsets[i], graph.out_offsets[i + 1])
            for i in _ids(graph.entities, pattern.subject)
        ]
        rows = _distinct(spans, n)
    elif pattern.value is not None:
        spans = [
            np.asarray(graph.in_order[graph.in_offsets[i] : graph.in_offsets[i + 1]], np.int64)
            for i in _ids(graph.entities, pattern.value)
        ]
        rows = _distinct(spans, n)
    else:
        rows = np.arange(n)
    if pattern.predicates is not None:
        relations = [i for iri in pattern.predicates for i in _ids(graph.relations, iri)]
        rows = rows[np.isin(graph.triples[rows, 1], relations)]
    if pattern.subject is not None and pattern.value is not None:
        rows = rows[np.isin(graph.triples[rows, 2], _ids(graph.entities, pattern.value))]
    return rows


def _text_rows(texts: Texts, names: Vocabulary, pattern: Pattern) -> NDArray[np.int64]:
    """The rows of `texts` that fit; of a value all that have its characters."""
    kinds = [
        kind
        for kind, iri in PREDICATES.items()
        if pattern.predicates is None or iri in pattern.predicates
    ]
    if not kinds:
        return np.zeros(0, np.int64)
    if pattern.subject is not None:
        spans = [
            np.arange(texts.offsets[i], texts.offsets[i + 1]) for i in _ids(names, pattern.subject)
        ]
        rows = _distinct(spans, len(texts))
    else:
        rows = np.arange(len(texts))
    rows = rows[np.isin(np.asarray(texts.kinds)[rows], kinds)]
    if pattern.value is not None:
        values = sorted({pattern.value, unquote(pattern.value.removeprefix(BASE))})
        hits = pc.is_in(texts.values.take(pa.array(rows)), pa.array(values, texts.values.type))
        rows = rows[hits.to_numpy(zero_copy_only=False)]
    return rows


def _distinct(parts: Sequence[NDArray[Any]], n: int) -> NDArray[np.int64]:
    if len(parts) == 1:
        return np.asarray(parts[0], np.int64)
    chosen = np.zeros(n, np.bool_)
    for part in parts:
        chosen[part] = True
    return np.flatnonzero(chosen)


# ---- lines ---------------------------------------------------------------------------------------
def _text_lines(texts: Texts, names: Vocabulary, patterns: Collection[Pattern]) -> Iterator[bytes]:
    rows = _distinct([_text_rows(texts, names, pattern) for pattern in patterns], len(texts))
    for start in range(0, len(rows), LINES_AT_ONCE):
        part = rows[start : start + LINES_AT_ONCE]
        nodes = np.searchsorted(texts.offsets, part, side="right") - 1
        kinds, languages = np.asarray(texts.kinds)[part], np.asarray(texts.languages)[part]
        values = texts.values.take(pa.array(part)).to_pylist()
        objects = [
            f"<{iri_of(value)}>"
            if kind == TextKind.TYPE
            else literal_of(value, texts.language_names[language])
            for value, kind, language in zip(
                values, kinds.tolist(), languages.tolist(), strict=True
            )
        ]
        yield _lines(
            _nodes(nodes, names),
            _terms(kinds, lambda i: f"<{PREDICATES[TextKind(i)]}>"),
            pa.array(objects, pa.large_string()),
        )


def _nodes(ids: NDArray[Any], names: Vocabulary) -> pa.Array:
    return _terms(ids, lambda id: f"<{iri_of(names.name(id))}>")


def _terms(ids: NDArray[Any], term: Callable[[int], str]) -> pa.Array:
    """The terms of `ids`, each made once."""
    used, places = np.unique(ids, return_inverse=True)
    terms = pa.array([term(int(i)) for i in used], pa.large_string())
    return terms.take(pa.array(places.reshape(-1)))


def _lines(subjects: pa.Array, predicates: pa.Array, values: pa.Array) -> bytes:
    space, end = (pa.scalar(text, pa.large_string()) for text in (" ", " .\n"))
    lines = pc.binary_join_element_wise(subjects, predicates, values, space)
    lines = pc.binary_join_element_wise(lines, end, pa.scalar("", pa.large_string()))
    _, offsets, data = lines.buffers()
    n_bytes = int(np.frombuffer(offsets, np.int64)[len(lines)])
    return bytes(memoryview(data)[:n_bytes])
