"""The graph of a linker: from a folder, from files, and the folder of one in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kept.linking.graphs import folder_of, read_graph
from kg_loaders import KnowledgeGraph


@pytest.fixture
def triples(tmp_path: Path) -> Path:
    path = tmp_path / "triples.tsv"
    path.write_text("Q1\tnear\tQ2\nQ2\tnear\tQ3\n", encoding="utf-8")
    return path


def labels(graph: KnowledgeGraph) -> dict[str, str]:
    return {name: graph.label(i) for i, name in enumerate(graph.entities)}


def test_a_file_with_files_of_names(triples: Path, tmp_path: Path) -> None:
    names, more = tmp_path / "names.tsv", tmp_path / "more.tsv"
    names.write_text("Q1\tElsby\ta town\nQ2\tIsle\n", encoding="utf-8")
    more.write_text("Q1\tOld Elsby\t7\n", encoding="utf-8")
    graph = read_graph(str(triples), labels=[str(names)], aliases=[str(more)])
    assert labels(graph) == {"Q1": "Elsby", "Q2": "Isle", "Q3": "Q3"}
    assert graph.n_triples == 2
    one = graph["Q1"]
    assert one.description == "a town"
    assert "Old Elsby" in one.aliases


def test_without_a_name_identifiers_are_names(triples: Path, tmp_path: Path) -> None:
    graph = read_graph(str(triples))
    assert labels(graph) == {name: name for name in ("Q1", "Q2", "Q3")}
    graph.save(tmp_path / "kg")
    again = read_graph(str(tmp_path / "kg"))
    assert labels(again) == labels(graph)


def test_names_are_of_the_first_language(triples: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.tsv"
    names.write_text("Q1\tElsbü\n", encoding="utf-8")
    graph = read_graph(str(triples), labels=[str(names)], languages=["de", "en"])
    assert graph.manifest.languages[0] == "de"
    assert labels(graph)["Q1"] == "Elsbü"


def test_a_graph_in_memory_is_written_once(triples: Path, tmp_path: Path) -> None:
    graph = read_graph(str(triples))
    folder = folder_of(graph)
    assert KnowledgeGraph.open(folder).content_hash == graph.content_hash
    assert folder_of(graph) == folder
    graph.save(tmp_path / "kg")
    opened = KnowledgeGraph.open(tmp_path / "kg")
    assert folder_of(opened) == tmp_path / "kg"
