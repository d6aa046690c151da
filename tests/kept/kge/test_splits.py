"""Splits come back as written, what they share is counted, and damage is named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from kept.errors import ConfigError
from kept.kge.splits import read_negatives, read_splits
from kg_loaders import DamageError, KnowledgeGraph, SourceError
from kg_loaders.errors import UnknownNodeError


def write(folder: Path, **parts: str) -> Path:
    for name in ("train", "valid", "test"):
        text = parts.get(name, "a\tr\tb\n")
        (folder / f"{name}.txt").write_bytes(text.encode())
    return folder


def test_a_benchmark_folder_keeps_its_splits(tmp_path: Path):
    write(tmp_path, train="b\tr\ta\r\n\nb\tr\tc", test='"Heroes"\tr\ta\nb\tr\td\n')
    (tmp_path / "valid.txt").unlink()
    (tmp_path / "valid.tsv.gz").write_bytes(gzip.compress(b"a\ts\tb\n"))
    splits = read_splits(tmp_path, holdout=0.1, seed=0)
    graph = splits.graph

    def names(rows: np.ndarray) -> list[tuple[str, str, str]]:
        return [(graph.entities.name(h), graph.relations.name(r), graph.entities.name(t))
                for h, r, t in rows.tolist()]  # fmt: skip

    assert names(splits.train) == [("b", "r", "a"), ("b", "r", "c")]
    assert names(splits.valid) == [("a", "s", "b")]
    assert names(splits.test) == [('"Heroes"', "r", "a"), ("b", "r", "d")]
    assert [splits.n_unseen(name) for name in ("train", "valid", "test")] == [0, 1, 2]


def test_a_validation_split_may_be_called_dev(tmp_path: Path):
    write(tmp_path, valid="a\tr\tb\nb\tr\ta\n")
    (tmp_path / "valid.txt").rename(tmp_path / "dev.txt")
    assert len(read_splits(tmp_path, holdout=0.1, seed=0).valid) == 2


def test_an_openke_folder_is_a_benchmark_folder(tmp_path: Path):
    (tmp_path / "entity2id.txt").write_bytes(b"3\r\n/m/b\t0\r\n/m/a\t1\r\n/m/c\t2\r\n")
    (tmp_path / "relation2id.txt").write_bytes(b"1\r\n/r/s\t0\r\n")
    (tmp_path / "train2id.txt.gz").write_bytes(gzip.compress(b"2\n0 1 0\n2 1 0\n"))
    (tmp_path / "valid2id.txt").write_bytes(b"1\n1 0 0\n")
    (tmp_path / "test2id.txt").write_bytes(b"1\n1 2 0\n")
    splits = read_splits(tmp_path, holdout=0.1, seed=0)
    assert [*splits.graph.entities] == ["/m/a", "/m/b", "/m/c"]
    assert splits.train.tolist() == [[1, 0, 0], [2, 0, 0]]
    assert splits.test.tolist() == [[0, 0, 2]]
    (tmp_path / "test2id.txt").write_bytes(b"2\n1 2 0\n")
    with pytest.raises(DamageError, match=r"test2id.txt, line 1 .*count of lines is not 1"):
        read_splits(tmp_path, holdout=0.1, seed=0)


def test_negatives_come_in_the_ids_of_the_splits(tmp_path: Path):
    splits = read_splits(write(tmp_path, train="b\tr\ta\n"), holdout=0.1, seed=0)
    (tmp_path / "valid_negatives.txt.gz").write_bytes(gzip.compress(b"b\tr\tb\n"))
    with pytest.raises(SourceError, match="test_negatives"):
        read_negatives(tmp_path, splits)
    for line in ("x\tr\ta", "a\tr\tx", "a\tx\ta"):
        (tmp_path / "test_negatives.txt").write_text(f"a\tr\ta\n\n{line}\n")
        with pytest.raises(UnknownNodeError, match=r"test_negatives.txt, line 3: 'x' is not among"):
            read_negatives(tmp_path, splits)
    (tmp_path / "test_negatives.txt").write_text("\n")
    with pytest.raises(SourceError, match=r"test_negatives.txt holds no triple"):
        read_negatives(tmp_path, splits)
    (tmp_path / "test_negatives.txt").write_text("a\tr\ta\na\tr\tb\n")
    negatives = read_negatives(tmp_path, splits)
    assert negatives["valid"].tolist() == [[1, 0, 1]]
    assert negatives["test"].tolist() == [[0, 0, 0], [0, 0, 1]]


def test_triples_that_stand_in_two_splits_are_counted(tmp_path: Path):
    lines = [f"e{i}\tr{i % 3}\te{i + 1}\n" for i in range(20)]
    parts = {"train": lines[:12], "valid": lines[12:14], "test": [*lines[10:13], *lines[14:]]}
    write(tmp_path, **{name: "".join(part) for name, part in parts.items()})
    splits = read_splits(tmp_path, holdout=0.1, seed=0)
    assert splits.shared() == {"test in train": 2, "test in valid": 1}


def test_a_graph_is_cut_by_seed(tmp_path: Path, small_graph: KnowledgeGraph):
    small_graph.save(tmp_path / "kg")
    first, again, other = (read_splits(tmp_path / "kg", holdout=0.2, seed=s) for s in (1, 1, 2))
    assert [len(part) for part in first.as_mapping().values()] == [9, 3, 3]
    assert np.array_equal(first.test, again.test)
    assert first.shared() == {}
    assert not np.array_equal(first.test, other.test)
    together = np.concatenate(list(first.as_mapping().values()))
    assert np.array_equal(np.unique(together, axis=0), small_graph.triples)


@pytest.mark.parametrize("holdout", [0, 0.5, 0.01])
def test_a_cut_that_leaves_nothing_is_an_error(
    tmp_path: Path, small_graph: KnowledgeGraph, holdout: float
):
    small_graph.save(tmp_path / "kg")
    with pytest.raises(ConfigError, match=f"holdout {holdout}"):
        read_splits(tmp_path / "kg", holdout=holdout, seed=0)


def test_damage_is_named_with_its_place(tmp_path: Path):
    with pytest.raises(SourceError, match="train"):
        read_splits(tmp_path, holdout=0.1, seed=0)
    with pytest.raises(DamageError, match=r"valid.txt, line 2 \(byte 6\): 2 fields"):
        read_splits(write(tmp_path, valid="a\tr\tb\na\tr\n"), holdout=0.1, seed=0)
    for name in ("valid", "test"):
        with pytest.raises(SourceError, match=f"{name}.txt holds no triple"):
            read_splits(write(tmp_path, **{name: ""}), holdout=0.1, seed=0)
    (tmp_path / "train.txt").write_bytes(b"\xff\tr\tb\n")
    with pytest.raises(DamageError, match=r"train.txt, line 1 .*UTF-8"):
        read_splits(tmp_path, holdout=0.1, seed=0)


@pytest.mark.data
@pytest.mark.parametrize(
    ("folder", "n_entities", "n_relations", "sizes", "n_unseen"),
    [
        ("kgc/wn18rr", 40_943, 11, [86_835, 3_034, 3_134], 210),
        ("kgc/fb15k237", 14_541, 237, [272_115, 17_535, 20_466], 28),
        ("codex/codex-m", 17_050, 51, [185_584, 10_310, 10_311], 0),
    ],
)
def test_public_benchmarks_have_their_known_sizes(
    data_root: Path, folder: str, n_entities: int, n_relations: int, sizes: list[int], n_unseen: int
):
    splits = read_splits(data_root / folder, holdout=0.1, seed=0)
    assert (splits.graph.n_entities, splits.graph.n_relations) == (n_entities, n_relations)
    assert [len(part) for part in splits.as_mapping().values()] == sizes
    assert splits.n_unseen("test") == n_unseen
    assert splits.shared() == {}


@pytest.mark.data
def test_the_negatives_of_codex_s_are_false(data_root: Path):
    folder = data_root / "codex" / "codex-s"
    splits = read_splits(folder, holdout=0.1, seed=0)
    negatives = read_negatives(folder, splits)
    assert [len(part) for part in negatives.values()] == [1_827, 1_828]
    true = {tuple(row) for part in splits.as_mapping().values() for row in part.tolist()}
    assert not true & {tuple(row) for part in negatives.values() for row in part.tolist()}
