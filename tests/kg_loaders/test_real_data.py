"""Counts of public data sets, as their own descriptions state them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kg_loaders import KnowledgeGraph, Source, load
from kg_loaders.checks import check
from kg_loaders.export import export

pytestmark = pytest.mark.data


def test_codex_s(data_root: Path, tmp_path: Path) -> None:
    folder = data_root / "codex" / "codex-s"
    parts = [folder / "train.txt.gz", folder / "valid.txt", folder / "test.txt"]
    counts = [load([part])[1].n_triples for part in parts]
    assert counts == [32_888, 1_827, 1_828]
    graph, report = load(parts, out=tmp_path / "kg")
    assert (graph.n_entities, graph.n_relations, graph.n_triples) == (2_034, 42, 36_543)
    assert report.n_duplicates == report.n_rejected == 0
    export(graph, tmp_path / "x.tsv")
    lines = [gzip.decompress(parts[0].read_bytes()), *(part.read_bytes() for part in parts[1:])]
    assert sorted(b"".join(lines).split()) == sorted((tmp_path / "x.tsv").read_bytes().split())
    assert load([tmp_path / "x.tsv"])[0].content_hash == graph.content_hash


def test_codex_m_with_labels(data_root: Path) -> None:
    folder = data_root / "codex" / "codex-m"
    names = ["train.txt.gz", "valid.txt", "test.txt"]
    paths = [path for name in names for path in folder.glob(f"{name.removesuffix('.gz')}*")]
    assert [load([path])[1].n_triples for path in paths] == [185_584, 10_310, 10_311]
    labels = Source(
        folder / "entity_labels.tsv.gz", "texts", {"columns": ("label", "-"), "header": True}
    )
    graph, report = load([*paths, labels])
    assert (graph.n_entities, graph.n_relations, graph.n_triples) == (17_050, 51, 206_205)
    assert report.n_texts == 7_212
    unlabelled = next(f for f in check(graph) if f.code == "W402")
    assert unlabelled.n == 17_050 - 7_212
    train, _ = load([paths[0]])
    test, _ = load([paths[2]])
    assert "E201" not in {f.code for f in check(train, splits={"test": test})}


def test_wn18rr(data_root: Path) -> None:
    folder = data_root / "kgc" / "wn18rr"
    parts = [load([folder / name])[0] for name in ("train.txt.gz", "valid.txt", "test.txt")]
    assert [graph.n_triples for graph in parts] == [86_835, 3_034, 3_134]
    texts = Source(folder / "entity2text.txt.gz", "texts", {"columns": ("description",)})
    graph, _ = load([*(folder / name for name in ("train.txt.gz", "valid.txt", "test.txt")), texts])
    assert (graph.n_entities, graph.n_relations, graph.n_triples) == (40_943, 11, 93_003)
    described = {e for e in range(graph.n_entities) if graph.description(e) is not None}
    assert len(described) == 40_943  # `wc -l` says one less: the last line has no end
    actual = {f.code: f for f in check(parts[0], splits={"test": parts[2]})}
    assert actual["W501"].share == pytest.approx(0.349, abs=0.001)
    unseen = parts[0].entities.ids(parts[2].entities.array) < 0
    assert int(unseen.sum()) == 209


def test_fb15k237_in_openke_form(data_root: Path) -> None:
    folder = data_root / "kgc" / "fb15k237"
    graphs: list[KnowledgeGraph] = []
    for part, n_triples in (("train", 272_115), ("valid", 17_535), ("test", 20_466)):
        (path,) = folder.glob(f"{part}2id.txt*")
        graph, report = load([path])
        assert (graph.n_triples, report.n_rejected) == (n_triples, 0)
        graphs.append(graph)
    assert graphs[0].n_relations == 237
    assert int((graphs[0].entities.ids(graphs[2].entities.array) < 0).sum()) == 29


def test_repeated_triples_are_counted(data_root: Path) -> None:
    paths = sorted((data_root / "kgc" / "countries").rglob("*train*"))
    assert [load([path])[1].n_duplicates for path in paths] == [1, 1, 1]


def test_conceptnet_column_order(data_root: Path) -> None:
    folder = data_root / "kgc" / "conceptnet100k"
    parts = [Source(path, "tsv", {"order": "rht"}) for path in sorted(folder.iterdir())]
    graph, _ = load([part for part in parts if part.name.startswith(("train", "valid", "test"))])
    assert graph.n_relations == 34
