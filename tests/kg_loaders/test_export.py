"""Export and read again: JSON lines, N-Triples."""

from __future__ import annotations

import json
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from kg_loaders import (
    DamageReport,
    KnowledgeGraph,
    Record,
    SourceError,
    Text,
    TextKind,
    Triple,
    graph_from_records,
    load,
)
from kg_loaders.damage import DamagePolicy
from kg_loaders.errors import ExistsError, WriteError
from kg_loaders.export import export
from kg_loaders.formats.jsonl import read

ANY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NODE = st.sampled_from(["a", "b", "c\t\n"])


@st.composite
def texts(draw: st.DrawFn) -> Text:
    kind = draw(st.sampled_from(TextKind))
    count = draw(st.integers(0, 2**31 - 1)) if kind is TextKind.ALIAS else 0
    language = draw(st.sampled_from(["", "en", "zh-hant"]))
    return Text(draw(NODE), kind, draw(ANY), language, count, draw(st.booleans()))


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl", ".nt", ".ttl"])
def test_a_file_there_is_replaced_with_force_alone(
    small_graph: KnowledgeGraph, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_text("mine")
    with pytest.raises(ExistsError, match="--force"):
        export(small_graph, path)
    assert path.read_text() == "mine"
    export(small_graph, path, force=True)
    assert "Q90" in path.read_text()
    assert os.listdir(tmp_path) == [path.name]


@settings(deadline=None, max_examples=30)
@given(st.lists(texts(), min_size=1))
def test_texts_survive_json_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Text]
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "x.jsonl"
    graph = graph_from_records(rows)
    assert export(graph, path) == len(graph.entity_texts) + len(graph.relation_texts)
    again, report = load([path])
    assert again.content_hash == graph.content_hash
    assert report.n_duplicates == 0


def test_small_graph_comes_back(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    export(small_graph, tmp_path / "t.tsv")
    export(small_graph, tmp_path / "t.jsonl")
    again, _ = load([tmp_path / "t.tsv", tmp_path / "t.jsonl"])
    assert again.content_hash == small_graph.content_hash
    assert sorted(os.listdir(tmp_path)) == ["t.jsonl", "t.tsv"]


def test_a_line_is_a_node_and_a_language(tmp_path: Path) -> None:
    kinds = (TextKind.LABEL, TextKind.ALIAS, TextKind.DESCRIPTION)
    records = [Text("Q1", kind, f"{kind} {code}", code) for kind in kinds for code in ("de", "en")]
    assert export(graph_from_records(records), tmp_path / "x.jsonl") == 6
    rows = map(json.loads, (tmp_path / "x.jsonl").read_text().splitlines())
    assert sorted(row.get("language", "en") for row in rows) == ["de", "en"]


def test_ntriples(tmp_path: Path) -> None:
    records: list[Record] = [
        Triple("Q1", "http://x.org/p", "a b<>é\n%"),
        Text("Q1", TextKind.LABEL, 'say "hi"\n\\', "en"),
        Text("Q1", TextKind.ALIAS, "one", ""),
        Text("Q1", TextKind.TYPE, "Q5"),
        Text("mailto:not an iri", TextKind.DESCRIPTION, "x", "de"),
    ]
    n_lines = export(graph_from_records(records), tmp_path / "x.nt", base="http://e/")
    quads = list(ox.parse(path=str(tmp_path / "x.nt"), format=ox.RdfFormat.N_TRIPLES))
    assert n_lines == len(quads) == 5
    node = ox.NamedNode
    actual = {(q.subject, q.object) for q in quads}
    assert actual == {
        (node("http://e/Q1"), node("http://e/a%20b%3C%3Eé%0A%25")),
        (node("http://e/Q1"), ox.Literal('say "hi"\n\\', language="en")),
        (node("http://e/Q1"), ox.Literal("one")),
        (node("http://e/Q1"), node("http://e/Q5")),
        (node("http://e/mailto:not%20an%20iri"), ox.Literal("x", language="de")),
    }
    assert node("http://x.org/p") in {q.predicate for q in quads}


def test_turtle_says_what_ntriples_say(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    counts = {export(small_graph, tmp_path / f"x{suffix}") for suffix in (".nt", ".ttl")}
    messages = [
        {(q.subject, q.predicate, q.object) for q in ox.parse(path=str(tmp_path / f"x{suffix}"))}
        for suffix in (".nt", ".ttl")
    ]
    assert messages[0] == messages[1]
    assert counts == {len(messages[0])}
    text = (tmp_path / "x.ttl").read_text(encoding="utf-8")
    assert "@prefix skos: <http://www.w3.org/2004/02/skos/core#> ." in text
    assert "kept:Q90 kept:P1376 kept:Q142" in text


def test_failed_export_leaves_nothing(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="suffix must be one of"):
        export(small_graph, tmp_path / "x.doc")
    with pytest.raises(WriteError, match="there is no folder"):
        export(small_graph, tmp_path / "none" / "x.tsv")
    with pytest.raises(SourceError, match="cannot be written"):
        export(graph_from_records([Triple("a", "", "b")]), tmp_path / "x.tsv")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ['<a> & "b"', "tab\tand\nline", "é \U0001f600"])
def test_networkx_reads_graphml(name: str, tmp_path: Path) -> None:
    records = [Triple(name, "r & s", "b"), Triple(name, "t", "b"), Text("b", TextKind.LABEL, name)]
    graph = graph_from_records(records)
    assert export(graph, tmp_path / "x.xml", to="networkx") == 2
    actual = nx.read_graphml(tmp_path / "x.xml")
    edges = {(h, data["relation"], data["label"], t) for h, t, data in actual.edges(data=True)}
    assert edges == {(name, "r & s", "r & s", "b"), (name, "t", "t", "b")}
    assert actual.nodes["b"]["label"] == name
    with pytest.raises(SourceError, match="a character that XML cannot"):
        export(graph_from_records([Triple("\x01", "r", "b")]), tmp_path / "y.graphml")
    assert [path.name for path in tmp_path.iterdir()] == ["x.xml"]


@pytest.mark.parametrize("library", ["pyg", "dgl"])
def test_tensors_are_those_of_the_libraries(
    small_graph: KnowledgeGraph, library: str, tmp_path: Path
) -> None:
    export(small_graph, tmp_path / "x", to=library)
    tensors = load_file(tmp_path / "x")
    rows = np.stack([tensors["edge_index"][0], tensors["edge_type"], tensors["edge_index"][1]], 1)
    assert rows.tolist() == small_graph.triples.tolist()
    assert tensors["num_nodes"].tolist() == [small_graph.n_entities]
    with pytest.raises(SourceError, match="to 'gml': it must be one of"):
        export(small_graph, tmp_path / "y.tsv", to="gml")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "a", "lable": "x"}', "unknown field `lable`"),
        ('{"label": "x"}', "missing required field `id`"),
        ('{"id": "", "label": "x"}', "empty id"),
        ('{"id": "a", "types": [""]}', "empty id, alias or type"),
        ('{"id": 7}', "Expected `str`, got `int`"),
        ('{"id": "a", "aliases": [["x", -1]]}', "count is not"),
        ('{"id": "a", "aliases": [["x"]]}', "array` of length 2"),
        ('{"id": "a"', "not JSON"),
        ('{"id": "a", "label": "\\ud800"}', "not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("a\tb\tc", "not JSON"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "x").write_text(f'{{"id": "a", "label": "A"}}\n\n{line}\n{{"id": "b"}}\n')
    report = DamageReport(policy=DamagePolicy.SKIP)
    assert [text.value for text in read(tmp_path / "x", report)] == ["A"]
    assert reason in report.rejections[0].reason
    assert (report.n_lines, report.n_rejected, report.n_blank, report.n_skipped) == (4, 1, 1, 1)
