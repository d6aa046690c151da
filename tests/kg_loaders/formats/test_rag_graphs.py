"""Graphs of LightRAG, LlamaIndex and neo4j-graphrag, on files in their forms, made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kg_loaders import DamageReport, KgError, KnowledgeGraph, Source, Text, TextKind, Triple, load
from kg_loaders.budget import ReaderBudget
from kg_loaders.export import export
from kg_loaders.formats import graphml, rag_graphs

LABEL, ALIAS, DESCRIPTION, TYPE = TextKind
FILES = Path(__file__).parent.parent.parent / "fuzz" / "corpus"


def test_lightrag() -> None:
    """A name in quotes is one without; each keyword is a relation, each description its own."""
    report = DamageReport()
    assert list(graphml.read(FILES / "graphml" / "lightrag.graphml", report)) == [
        Text("Padre", LABEL, "Padre"),
        Text("Padre", TYPE, "person"),
        Text("Padre", DESCRIPTION, "A baker in Lyon."),
        Text("Padre", DESCRIPTION, "Padre bakes at night."),
        Text('"LYON"', LABEL, "LYON"),
        Text('"LYON"', TYPE, "LOCATION"),
        Triple("Padre", "works in", '"LYON"'),
        Triple("Padre", "residence", '"LYON"'),
    ]
    assert report.skipped == {
        "source_id of a node": 1, "source_id of an edge": 1, "weight of an edge": 1,
        "description of an edge": 1,
    }  # fmt: skip


def test_llamaindex() -> None:
    report = DamageReport()
    path = FILES / "llamaindex" / "property_graph_store.json"
    assert list(rag_graphs.read_llamaindex(path, report)) == [
        Text("Padre", LABEL, "Padre"),
        Text("Padre", TYPE, "PERSON"),
        Text("Padre", DESCRIPTION, "A baker."),
        Text("Lyon", LABEL, "Lyon"),
        Triple("Padre", "WORKS_IN", "Lyon"),
    ]
    assert report.skipped == {
        "text chunk or document": 1, "relation of a text chunk or a document": 1,
    }  # fmt: skip
    old = rag_graphs.read_llamaindex(FILES / "llamaindex" / "graph_store.json", DamageReport())
    assert list(old) == [
        Triple("Padre", "works as", "baker"),
        Triple("Padre", "lives in", "Lyon"),
        Triple("Lyon", "in", "France"),
    ]


def test_a_triplet_without_its_relation_is_a_triple(tmp_path: Path) -> None:
    (tmp_path / "graph_store.json").write_text(
        json.dumps({"nodes": {}, "relations": {}, "triplets": [["a", "r", "b"]]})
    )
    graph, _ = load([tmp_path / "graph_store.json"])
    assert graph.facts("a") == [("a", "r", "b")]


def test_neo4j_graphrag() -> None:
    report = DamageReport()
    path = FILES / "neo4j-graphrag" / "graph.json"
    assert list(rag_graphs.read_neo4j_graphrag(path, report)) == [
        Text("c1:0", LABEL, "Padre"),
        Text("c1:0", TYPE, "Person"),
        Text("c1:1", LABEL, "Lyon"),
        Text("c1:1", TYPE, "City"),
        Text("c1:1", DESCRIPTION, "On the Rhone."),
        Triple("c1:0", "WORKS_IN", "c1:1"),
    ]
    assert report.n_skipped == 2


def test_what_kept_exports_as_graphml_comes_back(
    small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    export(small_graph, tmp_path / "x.graphml")
    graph, report = load([tmp_path / "x.graphml"])
    assert set(graph.entities) == set(small_graph.entities)
    assert graph.n_triples == small_graph.n_triples == report.n_triples
    for name in small_graph.entities:
        ours, theirs = (each.entities.find(name) or 0 for each in (graph, small_graph))
        assert graph.label(ours) == small_graph.label(theirs).strip('"')


@pytest.mark.parametrize(
    ("format", "text", "words"),
    [
        ("llamaindex", "{", "is not JSON"),
        ("llamaindex", '{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ("llamaindex", '{"nodes": []}', "has no nodes and relations, or graph_dict"),
        ("llamaindex", '{"graph_dict": {"a": [["r"]]}}', "line 1 .*no relation between two nodes"),
        ("llamaindex", '{"graph_dict": {}} {}', "line 1 .*more than one JSON value"),
        ("neo4j-graphrag", '{"nodes": {}}', "has no lists of nodes and relationships"),
        ("neo4j-graphrag", '{"nodes": [{"id": 7}], "relationships": []}', "a node without an id"),
        ("neo4j-graphrag", '{"nodes": [], "relationships": [7]}', "no relation between two nodes"),
        ("graphml", "<a/>", "is not GraphML"),
        ("graphml", "<graphml><node/></graphml>", "line 1 .*no id, source or target"),
        ("graphml", '<graphml><node id="a"/>', "no XML: no element found"),
        ("graphml", '<!DOCTYPE a [<!ENTITY b "&c;">]><graphml/>', "entities"),
    ],
)
def test_faults_are_told(format: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(KgError, match=words):
        load([Source(tmp_path / "x", format)])


@pytest.mark.parametrize("format", ["llamaindex", "neo4j-graphrag", "graphml"])
def test_a_document_has_a_size(format: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(" " * 200)
    with pytest.raises(KgError, match="document_bytes"):
        load([Source(tmp_path / "x", format)], budget=ReaderBudget(document_bytes=100))
