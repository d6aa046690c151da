"""ERNIE's released layout, written here with made-up weights, into a model of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kept.batches import N_SPECIAL_ROWS
from kept.convert import ernie as keys
from kept.errors import CheckpointError
from kept.objectives.model import KnowledgeForPreTraining
from kg_loaders import KnowledgeGraph, Triple, graph_from_records
from kg_loaders.errors import GraphMismatchError
from tests.kept.convert.releases import ERNIE_VECTORS, ernie_release


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder as the original ships it."""
    ernie_release(tmp_path)
    return tmp_path


def rewrite(release: Path, change: Any) -> None:
    state = torch.load(release / "pytorch_model.bin", weights_only=True)
    change(state)
    torch.save(state, release / "pytorch_model.bin")


def test_a_release_becomes_a_model_of_no_graph(release: Path, small_graph: KnowledgeGraph) -> None:
    model = keys.convert(release)
    assert model.config.layer_types == ["mix", "norm", "sim"]
    assert sorted(model.objectives) == ["dea", "mlm", "nsp"]
    assert torch.equal(model.encoder.entity_vectors.weight[N_SPECIAL_ROWS:], ERNIE_VECTORS)
    assert not model.encoder.entity_vectors.weight[:N_SPECIAL_ROWS].any()
    assert not model.encoder.entity_vectors.weight.requires_grad
    assert model.config.id_space_hash == ""
    with pytest.raises(GraphMismatchError, match="none"):
        model.require_graph(small_graph)
    by_file = keys.convert(release / "pytorch_model.bin")
    for name, value in model.state_dict().items():
        assert torch.equal(value, by_file.state_dict()[name])


def test_saved_and_loaded_it_is_the_same(release: Path, tmp_path: Path) -> None:
    model = keys.convert(release)
    model.save_pretrained(tmp_path / "ours")
    again = KnowledgeForPreTraining.from_pretrained(tmp_path / "ours")
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_vectors_for_a_graph(release: Path, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    small_graph.save(tmp_path / "kg")
    model = keys.convert(release, kg=tmp_path / "kg")
    model.require_graph(small_graph)
    table = model.encoder.entity_vectors.weight[N_SPECIAL_ROWS:]
    places = {"Q90": 0, "Q64": 2}
    for name, index in places.items():
        assert torch.equal(table[small_graph.entities.id(name)], ERNIE_VECTORS[index])
    known = [small_graph.entities.id(name) for name in places]
    assert not table[[i for i in range(small_graph.n_entities) if i not in known]].any()
    other_graph = graph_from_records([Triple("x", "r", "y")])
    other_graph.save(tmp_path / "other")
    with pytest.raises(CheckpointError, match="names no entity"):
        keys.convert(release, kg=tmp_path / "other")


def test_without_vectors_there_are_no_entities(release: Path) -> None:
    for name in ("entity2vec.vec", "entity2id.txt"):
        (release / name).unlink()
    model = keys.convert(release)
    assert model.config.n_entities == 0
    assert model.encoder.entity_vectors.weight.shape == (N_SPECIAL_ROWS, 100)
    with pytest.raises(CheckpointError, match=r"entity2vec\.vec cannot be read"):
        keys.convert(release, entities=release)


def test_missing_and_unexpected_weights_are_named(release: Path) -> None:
    rewrite(release, lambda state: state.pop("bert.pooler.dense.bias"))
    with pytest.raises(CheckpointError, match=r"missing \['encoder\.host\.pooler\.dense\.bias'\]"):
        keys.convert(release)
    rewrite(release, lambda state: state.update(surplus=torch.zeros(1)))
    with pytest.raises(CheckpointError, match="surplus"):
        keys.convert(release)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("entity2vec.vec", "1.0\tx\n", "entity2vec.vec, line 1: could not convert"),
        ("entity2vec.vec", "1.0\tnan\n", "line 1: a number that is not finite"),
        ("entity2vec.vec", "1_0\t2.0\n", "line 1: numbers are written in ASCII digits"),
        ("entity2vec.vec", "1.0\t2.0\n1.0\n", r"widths \[1, 2\]"),
        ("entity2vec.vec", "", "has 0 vectors"),
        ("ernie_config.json", "{", "ernie_config.json cannot be read"),
    ],
)
def test_damaged_files_are_named(release: Path, name: str, text: str, message: str) -> None:
    (release / name).write_text(text)
    with pytest.raises(CheckpointError, match=message):
        keys.convert(release)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q90\t0\n", "line 1: not a count"),
        ("1\nQ90\n", "line 2: not a name and an index"),
        ("1\nQ90\t0_0\n", "line 2: not a name and an index"),
        ("1\nQ90\t+0\n", "line 2: not a name and an index"),
        ("1\nQ90\t7\n", "fewer than it should"),
    ],
)
def test_damaged_names_are_told(
    release: Path, small_graph: KnowledgeGraph, tmp_path: Path, text: str, message: str
) -> None:
    small_graph.save(tmp_path / "kg")
    (release / "entity2id.txt").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        keys.convert(release, kg=tmp_path / "kg")


def test_another_model_is_refused(release: Path) -> None:
    (release / "entity2vec.vec").unlink()
    torch.save({"bert.pooler.dense.bias": torch.zeros(8)}, release / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="this is not ERNIE"):
        keys.convert(release)
