"""Vectors of entities from labels and from a file of Wikipedia2Vec, and who has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kept.batches import N_SPECIAL_ROWS
from kept.encoders.ernie import ERNIE
from kept.encoders.knowbert import KnowBERT
from kept.errors import CheckpointError
from kept.hosts import word_table
from kept.kge.vectors import ScorerFolder, entity_vectors, open_vectors
from kept.vectors import LabelVectors, Wikipedia2VecFile
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from tests.kept.tiny_hosts import tiny_host

LINES = (
    "7 3",
    "river 1 2 3",
    "ENTITY/Seine 0.5 0 -1",
    "ENTITY/Old_Paris 3 0 4",
    "Paris 9 9 9",
    "ENTITY/Q3 0 6 8",
    "ENTITY/Elsewhere not a number",
    "ENTITY/Seine 7 7 7",
)


@pytest.fixture
def file(tmp_path: Path) -> Wikipedia2VecFile:
    return written(tmp_path, *LINES)


def written(folder: Path, *lines: str) -> Wikipedia2VecFile:
    path = folder / "vectors.txt"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return Wikipedia2VecFile(path)


@pytest.fixture
def graph() -> KnowledgeGraph:
    labels = {"Q1": "Old Paris", "Q2": "Seine", "Q3": "Seine", "Q4": "Paris"}
    texts = [Text(name, TextKind.LABEL, label, "en") for name, label in labels.items()]
    return graph_from_records([Triple("Q1", "P1", "Q2"), Triple("Q3", "P1", "Q4"), *texts])


def test_pages_belong_to_identifiers_then_labels(
    file: Wikipedia2VecFile, graph: KnowledgeGraph
) -> None:
    """Q3 is a page of its own name, a word is no page, and the first line of a key counts."""
    vectors = file(graph)
    rows = {graph.entities.name(i): vectors.vectors[i].tolist() for i in range(graph.n_entities)}
    assert rows == {"Q1": [3, 0, 4], "Q2": [0.5, 0, -1], "Q3": [0, 6, 8], "Q4": [0, 0, 0]}
    known = {graph.entities.name(i) for i in vectors.known.nonzero()[:, 0].tolist()}
    assert known == {"Q1", "Q2", "Q3"}
    assert file.width == 3
    words = file.words(["river", "ENTITY/Seine", "sea"])
    assert {word: vector.tolist() for word, vector in words.items()} == {"river": [1, 2, 3]}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("ENTITY/Seine 1 2 3",), "line 1: 'ENTITY/Seine 1 2 3"),
        ((), "line 1: ''"),
        (("1 3", "ENTITY/Seine 1 2"), "line 2: 2 numbers"),
        (("2 2", "a 1 2", "ENTITY/Seine 1 inf"), "line 3: 2 numbers, all finite: False"),
        (("1 2", "ENTITY/Seine 1 x"), "line 2: could not convert"),
    ],
)
def test_a_faulty_line_is_named(
    lines: tuple[str, ...], message: str, tmp_path: Path, graph: KnowledgeGraph
) -> None:
    with pytest.raises(CheckpointError, match=rf"vectors\.txt, {message}"):
        written(tmp_path, *lines)(graph)


def test_a_file_that_is_none(tmp_path: Path, graph: KnowledgeGraph) -> None:
    with pytest.raises(CheckpointError, match=r"absent\.txt cannot be read"):
        Wikipedia2VecFile(tmp_path / "absent.txt")(graph)
    (tmp_path / "binary").write_bytes(b"1 2\nENTITY/Seine \xff\n")
    with pytest.raises(CheckpointError, match="binary is not text in UTF-8"):
        Wikipedia2VecFile(tmp_path / "binary")(graph)
    assert open_vectors(tmp_path) == ScorerFolder(tmp_path)


def test_labels_are_means_of_their_pieces(tokenizer: Any, graph: KnowledgeGraph) -> None:
    words = torch.randn(len(tokenizer), 5, generator=torch.Generator().manual_seed(0))
    named = graph_from_records([Triple("Q1", "P1", "Q2"), Text("Q1", TextKind.LABEL, "old", "en")])
    vectors = LabelVectors(words, tokenizer)(named)
    (piece,) = tokenizer("old", add_special_tokens=False)["input_ids"]
    assert torch.equal(vectors.vectors[named.entities.find("Q1") or 0], words[piece])
    assert vectors.known.all()
    silent = graph_from_records([Text("Q1", TextKind.LABEL, "\u200d", "en")])  # no piece at all
    assert not LabelVectors(words, tokenizer)(silent).known.any()


def test_ernie_and_knowbert_read_the_file(
    file: Wikipedia2VecFile, graph: KnowledgeGraph, tokenizer: Any
) -> None:
    """In place of a scorer: the file's own width, mean length 1, zero for who has none."""
    host = tiny_host(n_words=len(tokenizer), n_positions=64)
    expected = file(graph)
    expected_rows = expected.vectors / expected.vectors[expected.known].norm(dim=1).mean()
    options: dict[str, Any] = {"entity_heads": 1}
    ernie = ERNIE.for_graph(host, graph, tokenizer, seed=0, vectors=file.path, **options)
    assert ernie.config.entity_width == 3
    torch.testing.assert_close(ernie.entity_vectors.weight[N_SPECIAL_ROWS:], expected_rows)
    kar = {"width": 3, "n_heads": 1, "vectors_from": str(file.path)}
    knowbert = KnowBERT.for_graph(host, graph, tokenizer, seed=0, kars=[kar])
    table = knowbert.linker("kg").entities.vectors.weight
    torch.testing.assert_close(table[N_SPECIAL_ROWS:], expected_rows)
    assert word_table(host).num_embeddings == len(tokenizer)


def test_a_file_of_other_things_is_refused(tmp_path: Path, graph: KnowledgeGraph) -> None:
    other = written(tmp_path, "1 3", "ENTITY/Tokyo 1 2 3")
    with pytest.raises(CheckpointError, match=r"none of the graph's 4 entities"):
        entity_vectors(graph, width=3, seed=0, path=other.path)
