"""A saved scorer comes back exactly, and only into its own id space."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kept.errors import CheckpointError
from kept.kge import FORMULAS, RotatE, Scorer, TransE, make_scorer
from kept.kge.splits import Splits
from kept.kge.trained import (
    check_splits,
    load_scorer,
    read_description,
    save_scorer,
    write_described,
)
from kg_loaders import GraphMismatchError, KnowledgeGraph, Triple, graph_from_records
from kg_loaders.disk import seals
from kg_loaders.errors import ExistsError
from tests.flips import forge


def make(name: str, graph: KnowledgeGraph) -> Scorer:
    return make_scorer(name, n_entities=graph.n_entities, n_relations=graph.n_relations, width=4,
                       generator=torch.Generator().manual_seed(0))  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_round_trip(name: str, tmp_path: Path, small_graph: KnowledgeGraph):
    scorer = make(name, small_graph)
    if isinstance(scorer, (TransE, RotatE)):
        scorer.norm = 1 if isinstance(scorer, TransE) else 2  # not the default
    save_scorer(tmp_path / "m", scorer, small_graph, {"seed": 3})
    loaded = load_scorer(tmp_path / "m", small_graph)
    triples = torch.from_numpy(small_graph.triples)
    assert torch.equal(loaded.scorer.scores("tail", triples), scorer.scores("tail", triples))
    assert loaded.training == {"seed": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_another_graph_is_refused_by_both_hashes(tmp_path: Path, small_graph: KnowledgeGraph):
    save_scorer(tmp_path / "m", make("complex", small_graph), small_graph, {})
    subset = small_graph.with_triples(small_graph.triples[:3], note="part")
    assert load_scorer(tmp_path / "m", subset).scorer.n_entities == small_graph.n_entities
    other = graph_from_records([Triple("a", "r", "b")])
    with pytest.raises(GraphMismatchError) as caught:
        load_scorer(tmp_path / "m", other)
    assert small_graph.id_space_hash[:12] in str(caught.value)
    assert other.id_space_hash[:12] in str(caught.value)
    with pytest.raises(CheckpointError, match="has others"):
        save_scorer(tmp_path / "n", make("complex", small_graph), other, {})


def test_other_splits_are_refused_by_both_hashes(tmp_path: Path, small_graph: KnowledgeGraph):
    rows = small_graph.triples
    splits = Splits(small_graph, rows[:8], rows[8:10], rows[10:])
    scorer = make("complex", small_graph)
    save_scorer(tmp_path / "m", scorer, small_graph, {"splits_hash": splits.splits_hash})
    check_splits(tmp_path / "m", replace(splits, test=splits.test[::-1]))
    other = replace(splits, train=rows[:9], valid=rows[9:10])
    with pytest.raises(GraphMismatchError, match="train again") as caught:
        check_splits(tmp_path / "m", other)
    for one in (splits, other):
        assert one.splits_hash[:12] in str(caught.value)
    save_scorer(tmp_path / "old", scorer, small_graph, {})
    with pytest.raises(CheckpointError, match=r"with which splits .* train again"):
        check_splits(tmp_path / "old", splits)


def test_a_flipped_byte_a_missing_file_and_an_existing_folder_are_errors(
    tmp_path: Path, small_graph: KnowledgeGraph
):
    folder = tmp_path / "m"
    save_scorer(folder, make("complex", small_graph), small_graph, {})
    with pytest.raises(ExistsError, match="--force"):
        save_scorer(folder, make("complex", small_graph), small_graph, {})
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(CheckpointError, match="was altered"):
        load_scorer(folder, small_graph)
    described = (folder / "model.json").read_text()
    (folder / "model.json").write_text(described.replace('"norm": null', '"norm": 1'))
    with pytest.raises(CheckpointError, match=r"model.json is damaged"):
        load_scorer(folder, small_graph)
    forge(folder, {"format_version": 9}, "model.json")
    with pytest.raises(CheckpointError, match="format version 9"):
        load_scorer(folder, small_graph)
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="kept kgc train"):
        load_scorer(folder, small_graph)


def test_a_width_of_1_is_refused_because_it_is_odd(tmp_path: Path, small_graph: KnowledgeGraph):
    """Not because the weights have too few numbers for it."""
    save_scorer(tmp_path / "m", make("complex", small_graph), small_graph, {})
    forge(tmp_path / "m", {"width": 1}, "model.json")
    with pytest.raises(CheckpointError, match="must be even"):
        load_scorer(tmp_path / "m", small_graph)


def test_a_second_opening_does_not_read_the_weights(
    tmp_path: Path, small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
):
    """What matched its checksums is remembered, once the clock of the files has moved on."""
    read: list[str] = []
    real = seals.sha256_of
    monkeypatch.setattr(seals, "sha256_of", lambda path: read.append(path.name) or real(path))
    monkeypatch.setattr(seals, "memory", lambda: tmp_path / "memory")
    save_scorer(tmp_path / "m", make("complex", small_graph), small_graph, {})
    time.sleep(2 * seals.TICK_NS / 1e9)
    first = read_description(tmp_path / "m")
    assert "model.safetensors" in read
    read.clear()
    assert read_description(tmp_path / "m") == first
    assert read == []


def test_a_scorer_without_vectors_of_entities_is_refused_by_name(
    tmp_path: Path, small_graph: KnowledgeGraph
):
    write_described(tmp_path / "m", {"scorer": "ultra", "training": {}}, {"a": torch.ones(1)})
    with pytest.raises(CheckpointError, match="holds 'ultra', which reads graphs and keeps no"):
        load_scorer(tmp_path / "m", small_graph)
