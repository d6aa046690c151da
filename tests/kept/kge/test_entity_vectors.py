"""Entity vectors for encoders: special rows, seeds, and a folder of a trained scorer instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from kept.batches import MASK_ROW, N_SPECIAL_ROWS, PAD_ROW, UNKNOWN_ROW
from kept.errors import CheckpointError
from kept.kge.scorers import make_scorer
from kept.kge.trained import save_scorer
from kept.kge.vectors import entity_vectors
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError


def test_rows_lengths_and_seeds(small_graph: KnowledgeGraph) -> None:
    vectors = entity_vectors(small_graph, width=6, seed=1)
    assert vectors.shape == (small_graph.n_entities + N_SPECIAL_ROWS, 6)
    assert vectors[N_SPECIAL_ROWS:].norm(dim=1).mean().item() == pytest.approx(1)
    assert vectors[PAD_ROW].tolist() == [0] * 6
    for row in (UNKNOWN_ROW, MASK_ROW):
        assert vectors[row].norm().item() == pytest.approx(1)
    assert not vectors.requires_grad
    assert torch.equal(vectors, entity_vectors(small_graph, width=6, seed=1))
    assert not torch.equal(vectors, entity_vectors(small_graph, width=6, seed=2))
    untrained = entity_vectors(small_graph, width=6, seed=1, n_epochs=0)
    moved = (vectors - untrained)[N_SPECIAL_ROWS:].norm(dim=1)
    assert (moved > 0.01).float().mean() > 0.8


def test_a_graph_without_triples_has_vectors() -> None:
    graph = graph_from_records([Text("Q1", TextKind.LABEL, "one", "en")])
    assert entity_vectors(graph, width=4, seed=0).shape == (4, 4)


def test_vectors_of_a_trained_scorer(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    scorer = make_scorer(
        "distmult",
        n_entities=small_graph.n_entities,
        n_relations=small_graph.n_relations,
        width=6,
        generator=torch.Generator().manual_seed(0),
    )
    save_scorer(tmp_path / "run", scorer, small_graph, {})
    vectors = entity_vectors(small_graph, width=6, seed=1, path=tmp_path / "run")
    theirs = scorer.entities.detach()
    expected = theirs / theirs.norm(dim=1).mean()
    torch.testing.assert_close(vectors[N_SPECIAL_ROWS:], expected)
    with pytest.raises(CheckpointError, match="width 6, the encoder reads 8"):
        entity_vectors(small_graph, width=8, seed=1, path=tmp_path / "run")
    other = graph_from_records([Triple("Q1", "P1", "Q2")])
    with pytest.raises(GraphMismatchError):
        entity_vectors(other, width=6, seed=1, path=tmp_path / "run")


def test_what_all_entities_share_is_taken_out(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    """Against numpy, of a file that lacks an entity and has a dimension in which none differs."""
    names = list(small_graph.entities)
    vectors_of_file = np.random.default_rng(0).normal(5, 2, (len(names), 4)).astype(np.float32)
    vectors_of_file[:, 2] = 7
    lines = [
        f"ENTITY/{n} {' '.join(map(str, row))}\n"
        for n, row in zip(names, vectors_of_file, strict=True)
    ]
    file = tmp_path / "vectors.txt"
    file.write_text(f"{len(names) - 1} 4\n" + "".join(lines[1:]), encoding="utf-8")
    rows = entity_vectors(small_graph, width=4, seed=0, path=file, standardise=True)
    with np.errstate(invalid="ignore"):
        expected = (vectors_of_file[1:] - vectors_of_file[1:].mean(0)) / vectors_of_file[1:].std(0)
    expected[:, 2] = 0
    expected /= np.linalg.norm(expected, axis=1).mean()
    torch.testing.assert_close(rows[N_SPECIAL_ROWS + 1 :], torch.from_numpy(expected))
    assert not rows[N_SPECIAL_ROWS].any()
    vectors = entity_vectors(small_graph, width=4, seed=0, path=file)
    torch.testing.assert_close(vectors[N_SPECIAL_ROWS + 1 :].norm(dim=1).mean(), torch.tensor(1.0))
