"""SPARQL over a stored graph answers as rdflib's own graph of the same statements does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import rdflib

from kg_loaders import KgError, KnowledgeGraph, Text, TextKind, Triple, atlas, graph_from_records
from kg_loaders.errors import QueryError
from kg_loaders.rdf.rdflib_graph import to_rdflib
from kg_loaders.rdf.sparql import PREFIXES, GraphStore, query

RECORDS = [
    Triple("Q90", "P17", "Q142"), Triple("Q90", "P31", "a city"), Triple("http://x/a", "P17", "Q2"),
    Triple("Q142", "P17", "Q142"),
    Text("Q90", TextKind.LABEL, "Paris", "en"), Text("Q90", TextKind.ALIAS, "Lutetia", "", 4),
    Text("Q90", TextKind.TYPE, "Q515"), Text("Q142", TextKind.DESCRIPTION, "état", "fr"),
    Text("P17", TextKind.LABEL, "country", "en", 0, True),
]  # fmt: skip
GRAPH = graph_from_records(RECORDS)


def test_every_pattern_is_answered_as_by_rdflib() -> None:
    reference = to_rdflib(GRAPH)
    ours = rdflib.Graph(store=GraphStore(GRAPH))
    assert set(ours) == set(reference)
    assert len(ours) == len(reference)
    other = rdflib.URIRef("urn:kept:nowhere")
    columns = [sorted({*terms, other}) for terms in zip(*reference, strict=True)]
    for pattern in product(*([None, *terms] for terms in columns)):
        found, expected = list(ours.triples(pattern)), set(reference.triples(pattern))
        assert set(found) == expected, pattern
        assert len(found) == len(expected)


QUERIES = [
    "SELECT ?s ?name { ?s kg:P17 kg:Q142 OPTIONAL { ?s rdfs:label ?name } }",
    "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
    "SELECT DISTINCT ?p { ?s ?p ?o FILTER(isIRI(?o)) } ORDER BY ?p",
    "ASK { kg:Q90 a kg:Q515 }",
    "SELECT ?o { kg:Q90 kg:P17+ ?o }",
    "SELECT ?s { ?s rdfs:label 'Paris'@en }",
]


@pytest.mark.parametrize("text", QUERIES)
def test_queries(text: str) -> None:
    def rows(result: Any) -> Any:
        return sorted(map(str, result)) if result.type == "SELECT" else result.askAnswer

    expected = rows(to_rdflib(GRAPH).query(text, initNs=PREFIXES))
    assert rows(query(GRAPH, text)) == expected
    assert expected


def test_a_query_about_the_atlas() -> None:
    answer = query(atlas.graph(), "SELECT ?name { kg:Q90 kg:P17 ?c . ?c rdfs:label ?name }")
    assert "France" in {str(row[0]) for row in answer}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT", "no query in SPARQL: line 1"),
        ("SELECT ?x { ?x wdt:P31 ?y }", "wdt"),
        ("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", "no query in SPARQL"),
        ("SELECT ?x { SERVICE <http://x/> { ?x ?y ?z } }", "SERVICE asks another place"),
        ("SELECT ?x FROM <http://x/> { ?x ?y ?z }", "FROM asks another place"),
        ("SELECT ?x { { SELECT ?x { ?x ?y ?z SERVICE ?x { ?x ?y ?z } } } }", "SERVICE"),
        ("SELECT ?x { ?x ?y ?z FILTER EXISTS { SERVICE ?x { ?x ?y ?z } } }", "SERVICE"),
    ],
)
def test_what_is_not_asked(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        query(GRAPH, text)


def test_a_name_that_looks_like_the_iri_of_another() -> None:
    graph = KnowledgeGraph.from_triples([("urn:kept:a", "r", "b"), ("b c", "r", "d")])
    for name, value in (("urn:kept:a", "urn:kept:b"), ("urn:kept:b%20c", "urn:kept:d")):
        found = query(graph, f"SELECT ?o {{ <{name}> kg:r ?o }}")
        assert {str(row[0]) for row in found} == {value}
    assert issubclass(QueryError, KgError)
