"""Graphs to rdflib and back."""

from __future__ import annotations

import rdflib

from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.damage import DamageReport
from kg_loaders.rdf.rdflib_graph import from_rdflib, to_rdflib
from kg_loaders.rdf.records import RDFS

BASE = "http://www.wikidata.org/entity/"


def test_there_and_back(small_graph: KnowledgeGraph) -> None:
    there = to_rdflib(small_graph, base=BASE)
    n_texts = len(small_graph.entity_texts) + len(small_graph.relation_texts)
    assert len(there) == small_graph.n_triples + n_texts
    report = DamageReport()
    back = from_rdflib(there, report, prefixes={BASE: ""}, licence="CC0-1.0", types="text")
    assert report.n_skipped == 0
    assert back.id_space_hash == small_graph.id_space_hash
    assert back.triples.tolist() == small_graph.triples.tolist()
    for entity in range(back.n_entities):
        assert back.label(entity) == small_graph.label(entity)
        assert back.description(entity) == small_graph.description(entity)
        aliases = [alias for alias, _ in small_graph.aliases(entity)]
        assert [alias for alias, _ in back.aliases(entity)] == aliases
    assert back.relation_label(0) == small_graph.relation_label(0)


def test_sparql_over_a_graph(small_graph: KnowledgeGraph) -> None:
    pattern = f"<{BASE}Q142> <{BASE}P36> ?city . ?city <{RDFS}label> ?name"
    rows = list(to_rdflib(small_graph, base=BASE).query(f"SELECT ?name WHERE {{ {pattern} }}"))
    assert [str(row[0]) for row in rows] == ["Paris"]  # type: ignore[index]


def test_names_that_are_no_iris_are_encoded_and_types_kept() -> None:
    graph = rdflib.Graph()
    film = rdflib.URIRef("urn:kept:Alien%3A%20Covenant%09")
    graph.add((film, rdflib.RDF.type, rdflib.URIRef("http://a.example/Film")))
    graph.add((film, rdflib.RDFS.label, rdflib.Literal("Alien", lang="en-GB")))
    graph.add((film, rdflib.URIRef("http://a.example/year"), rdflib.Literal(2017)))
    graph.add((film, rdflib.URIRef("http://a.example/part"), rdflib.BNode()))
    report = DamageReport()
    loaded = from_rdflib(graph, report, types="text")
    assert loaded.types(0) == ["http://a.example/Film"]
    assert loaded.entity_texts.of(0, TextKind.LABEL, "en-gb") == [("Alien", 0)]
    assert report.n_skipped == 2
    again = to_rdflib(loaded)
    assert (film, rdflib.RDF.type, rdflib.URIRef("http://a.example/Film")) in again
    assert len(again) == 2
