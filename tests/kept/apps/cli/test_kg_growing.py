"""`kept kg add`, `merge`, `query` and `literals` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kept.apps.cli import app
from kept.kgc.completers.texts.literals import with_literals
from kept.kge.splits import read_splits
from kg_loaders import KnowledgeGraph
from kg_loaders.reading import workers as reading


def kept(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def kg(tmp_path: Path) -> Path:
    (tmp_path / "t.tsv").write_text("Q90\tP17\tQ142\nQ1\tP17\tQ142\n")
    (tmp_path / "l.tsv").write_text("Q90\tParis\nQ1\tParis\nQ142\tFrance\n")
    kept("kg", "build", tmp_path / "t.tsv", "--labels", tmp_path / "l.tsv", "-o", tmp_path / "kg")
    return tmp_path / "kg"


def test_add(kg: Path, tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("Q90\tP36\tQ2\nQ90\tP17\tQ142\n")
    output = kept("kg", "add", kg, tmp_path / "new.tsv", "-o", tmp_path / "kg2")
    assert "2 lines = 1 triple + 0 texts + 1 duplicate" in output
    assert "1 new entities, 1 new relations" in output
    assert KnowledgeGraph.open(kg).n_triples == 2
    kept("kg", "build", tmp_path / "t.tsv", tmp_path / "new.tsv", "--labels", tmp_path / "l.tsv",
         "-o", tmp_path / "whole")  # fmt: skip
    whole = KnowledgeGraph.open(tmp_path / "whole").content_hash
    assert KnowledgeGraph.open(tmp_path / "kg2").content_hash == whole
    summary = json.loads(kept("kg", "add", kg, tmp_path / "new.tsv", "--json"))
    assert (summary["n_new_entities"], summary["content_hash"]) == (1, whole)
    assert KnowledgeGraph.open(kg).content_hash == whole


def test_any_number_of_workers_adds_the_same(
    kg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SPAN_BYTES", 100)
    monkeypatch.setattr(reading, "LEAST_SPANS", 1)
    rows = [f"Q{i}\tP{i % 3}\tQ{i * 7 % 90}\n" for i in range(200)]
    (tmp_path / "new.tsv").write_text("".join(rows))
    for n in "12":
        kept("kg", "add", kg, tmp_path / "new.tsv", "-o", tmp_path / n, "--workers", n)
    one, two = (
        {path.relative_to(tmp_path / n): path.read_bytes()
         for path in (tmp_path / n).rglob("*") if path.is_file()}
        for n in "12"
    )  # fmt: skip
    assert one == two
    assert KnowledgeGraph.open(tmp_path / "2").n_triples == 202


def test_merge(kg: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    assert kept("kg", "merge", kg, "-o", pairs).startswith("1 pairs in")
    pairs.write_text(pairs.read_text().replace('"same":null', '"same":true'))
    output = kept("kg", "merge", kg, "--decisions", pairs, "-o", tmp_path / "kg2")
    assert "1 entity merged, 0 facts between them left out, 0 pairs undecided" in output
    assert list(KnowledgeGraph.open(tmp_path / "kg2").entities) == ["Q1", "Q142"]


def test_query(kg: Path) -> None:
    sparql = "SELECT ?s ?name { ?s kg:P17 ?c . ?c rdfs:label ?name } ORDER BY ?s"
    assert kept("kg", "query", kg, sparql).splitlines() == [
        "?s\t?name", '<urn:kept:Q1>\t"France"@en', '<urn:kept:Q90>\t"France"@en',
    ]  # fmt: skip
    rows = json.loads(kept("kg", "query", kg, sparql, "--json"))["results"]["bindings"]
    assert [row["s"]["value"] for row in rows] == ["urn:kept:Q1", "urn:kept:Q90"]
    assert kept("kg", "query", kg, "ASK { kg:Q90 kg:P17 kg:Q1 }") == "no\n"
    assert "<urn:kept:Q142> <urn:kept:of>" in kept(
        "kg", "query", kg, "CONSTRUCT { ?o kg:of ?s } WHERE { ?s kg:P17 ?o }"
    )


def test_literals(tmp_path: Path) -> None:
    facts, kg = tmp_path / "facts.nt", tmp_path / "kg"
    facts.write_text(
        "".join(f"<urn:Q90> <urn:P17> <urn:Q{n}> .\n" for n in range(142, 147))
        + '<urn:Q90> <urn:P1082> "2165423" .\n'
        '<urn:Q90> <urn:motto> "Fluctuat\\nnec mergitur" .\n_:one <urn:P1082> "1" .\n'
        '<urn:Q90> <http://www.w3.org/2000/01/rdf-schema#label> "Paris"@en .\n'
        '<urn:Q90> <urn:said> "ville"@fr .\n'
    )
    kept("kg", "build", facts, "-o", kg)
    words = ["kg", "literals", str(facts), "--language", "en", "-o", str(kg / "literals.tsv")]
    result = CliRunner().invoke(app, words)
    assert "1 literals in" in result.stdout
    assert "literal of a blank node: 1" in result.stderr
    assert "1 values with a tab or a line break" in result.stderr
    assert (kg / "literals.tsv").read_text() == "urn:Q90\turn:P1082\t2165423\n"
    assert KnowledgeGraph.open(kg, verify=True).n_triples == 5
    graph = with_literals(read_splits(kg, holdout=0.2, seed=0), kg).graph
    assert graph.description(graph.entities.id("urn:Q90")) == "p1082: 2165423"
