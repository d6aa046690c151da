from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.dense import approximate, building
from entity_linking.dense import index as dense_index
from entity_linking.dense.cards import CardOptions, cards
from entity_linking.dense.index import DenseIndex
from entity_linking.errors import LinkIndexError, LinkingError
from kg_loaders import KnowledgeGraph, Text, TextKind, atlas, graph_from_records
from kg_loaders.disk import seals
from kg_loaders.errors import ExistsError
from tests.entity_linking.dense_parts import TrigramEncoder
from tests.flips import forge

KINDS = ("flat", "hnsw", "ivf", "pq")


def _graph(names: dict[str, str]) -> KnowledgeGraph:
    return graph_from_records([Text(node, TextKind.LABEL, name) for node, name in names.items()])


def _many(n: int, start: int = 0) -> KnowledgeGraph:
    words = ("river", "castle", "saint", "north", "music", "club", "valley", "press")
    rng = np.random.default_rng(start)
    return _graph(
        {
            f"Q{i}": " ".join(words[j] for j in rng.integers(0, 8, 3)) + f" {i}"
            for i in range(start, start + n)
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_cards_find_themselves_before_and_after_saving(kind: str, tmp_path: Path) -> None:
    graph, encoder = _many(500), TrigramEncoder()
    result = DenseIndex.build(graph, encoder, kind=kind, dtype="float32")  # type: ignore[arg-type]
    result.save(tmp_path / "index")
    opened = DenseIndex.open(tmp_path / "index", verify=True)
    assert (len(opened), opened.manifest.kind, "Q7" in opened, "Q" in opened) == (
        500,
        kind,
        True,
        False,
    )
    assert opened.manifest.graphs == (graph.content_hash,)
    vectors = encoder.encode(cards(graph, range(500)))
    assert [hits[0].entity for hits in opened.search(vectors, 1)] == list(graph.entities)
    assert opened.search(vectors, 5) == result.search(vectors, 5)
    actual, known = opened.vectors(["Q499", "nowhere", "Q0"])
    assert known.tolist() == [True, False, True]
    rows = graph.entities.ids(["Q499", "Q0"])
    np.testing.assert_allclose(actual[known], vectors[rows], atol=1e-6)
    assert not actual[1].any()
    np.testing.assert_allclose(opened.mean, vectors.mean(axis=0), atol=1e-5)
    with pytest.raises(ExistsError, match="exists"):
        result.save(tmp_path / "index")
    result.save(tmp_path / "index", force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index"]


def test_search_is_what_comparing_all_finds() -> None:
    graph, encoder = _many(300), TrigramEncoder()
    index = DenseIndex.build(graph, encoder)
    stored, _ = index.vectors(list(graph.entities))
    queries = encoder.encode(["old castle", "saint of the valley", "club 77", "x"])
    expected = [
        sorted(
            zip(graph.entities, (stored @ query).tolist(), strict=True),
            key=lambda hit: (-hit[1], hit[0]),
        )[:7]
        for query in queries
    ]
    actual = index.search(queries, 7)
    for hits, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose([h.cosine for h in hits], [c for _, c in right], atol=1e-5)
        assert {h.entity for h in hits[:3]} <= {name for name, _ in right}
    assert [index.search(query[None], 7)[0] for query in queries] == actual
    assert [len(hits) for hits in index.search(queries[:1], 1000)] == [300]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_cards_go_by_identifier(kind: str) -> None:
    encoder = TrigramEncoder()
    graph = _graph({f"Q{i:03}": "Springfield" if i % 2 else f"town {i}" for i in range(200)})
    index = DenseIndex.build(graph, encoder, kind=kind)  # type: ignore[arg-type]
    (hits,) = index.search(encoder.encode(["Springfield"]), 3)
    assert [hit.entity for hit in hits] == ["Q001", "Q003", "Q005"]
    assert len(set(encoder.surfaces)) == len(encoder.surfaces) - 1  # the query, once more


NAMES = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.text("xyz ", max_size=4), max_size=12
)


@settings(max_examples=30, deadline=None)
@given(NAMES, NAMES, NAMES, st.integers(1, 5))
def test_adding_is_building_the_union(
    first: dict[str, str], second: dict[str, str], unknown: dict[str, str], k: int
) -> None:
    second = {name: second[name] for name in second if name not in first}
    encoder = TrigramEncoder(16)
    queries = encoder.encode(["x", *unknown.values()])
    union = _graph(first | second)
    grown = DenseIndex.build(_graph(first), encoder).add(_graph(first | second), encoder)
    built = DenseIndex.build(union, encoder)
    assert grown.search(queries, k) == built.search(queries, k)
    names = [*union.entities, *unknown]
    for mine, others in zip(grown.vectors(names), built.vectors(names), strict=True):
        np.testing.assert_array_equal(mine, others)
    np.testing.assert_allclose(grown.mean, built.mean, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, 400])
def test_a_saved_index_grows(kind: str, first: int, tmp_path: Path) -> None:
    encoder = TrigramEncoder()
    result = DenseIndex.build(_many(first), encoder, kind=kind)  # type: ignore[arg-type]
    result.save(tmp_path / "a")
    old = DenseIndex.open(tmp_path / "a")
    encoder.surfaces.clear()
    grown = old.add(_many(first + 50), encoder)
    assert len(old) == first
    assert len(encoder.surfaces) == 50
    grown.save(tmp_path / "b")
    again = DenseIndex.open(tmp_path / "b", verify=True)
    assert (len(again), len(again.manifest.graphs), again.manifest.kind) == (first + 50, 2, kind)
    vectors = encoder.encode(cards(_many(first + 50), range(first + 50)))
    right = [hits[0].entity for hits in again.search(vectors, 1)]
    assert right == list(_many(first + 50).entities)
    in_memory = result.add(_many(first + 50), encoder)
    assert in_memory.search(vectors, 3) == again.search(vectors, 3)
    assert {len(hits) for hits in result.search(vectors[:2], 1)} == {min(first, 1)}


def test_a_killed_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "CARDS_PER_SHARD", 100)
    graph, folder = _many(450), tmp_path / "shards"
    with pytest.raises(KeyboardInterrupt):
        DenseIndex.build(graph, TrigramEncoder(stop_after=250), checkpoint=folder)
    assert sorted(p.name for p in folder.iterdir()) == [
        "plan.json",
        "shard-00000.npy",
        "shard-00000.sha256",
        "shard-00001.npy",
        "shard-00001.sha256",
    ]
    encoder, report = TrigramEncoder(), []
    resumed = DenseIndex.build(
        graph, encoder, checkpoint=folder, progress=lambda n, total: report.append((n, total))
    )
    assert len(encoder.surfaces) == 250
    assert report == [(n, 450) for n in (100, 200, 300, 400, 450)]
    queries = TrigramEncoder().encode(["castle north", "press 7"])
    whole = DenseIndex.build(graph, TrigramEncoder())
    assert resumed.search(queries, 9) == whole.search(queries, 9)


def test_shards_of_another_build_are_refused(tmp_path: Path) -> None:
    graph, folder = _many(20), tmp_path / "shards"
    DenseIndex.build(graph, TrigramEncoder(), checkpoint=folder)
    for other in (
        {"graph": _many(21)},
        {"encoder": TrigramEncoder(32)},
        {"cards": CardOptions(n_aliases=1)},
        {"dtype": "float32"},
    ):
        arguments = {"graph": graph, "encoder": TrigramEncoder(), "checkpoint": folder, **other}
        with pytest.raises(LinkIndexError, match="another build"):
            DenseIndex.build(**arguments)  # type: ignore[arg-type]
    np.save(folder / "shard-00000.npy", np.zeros((3, 64), np.float16))
    with pytest.raises(LinkIndexError, match=r"shard-00000.npy.*checksum"):
        DenseIndex.build(graph, TrigramEncoder(), checkpoint=folder)
    (folder / "shard-00000.sha256").write_text(seals.sha256_of(folder / "shard-00000.npy"))
    with pytest.raises(LinkIndexError, match=r"shard-00000.*\(3, 64\)"):
        DenseIndex.build(graph, TrigramEncoder(), checkpoint=folder)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LinkIndexError, match="not an empty folder"):
        DenseIndex.build(graph, TrigramEncoder(), checkpoint=tmp_path)


def _spoil(folder: Path, how: str) -> None:
    manifest = folder / "manifest.json"
    if how == "version":
        forge(folder, {"format_version": 9})
    elif how == "foreign":
        manifest.write_text(json.dumps({"format_version": 2, "n_entities": 3}))
    elif how == "not json":
        manifest.write_text("{")
    elif how == "no manifest":
        manifest.unlink()
    elif how == "no file":
        (folder / "rows.npy").unlink()
    elif how == "cut":
        (folder / "index.faiss").write_bytes((folder / "index.faiss").read_bytes()[:-9])
    elif how == "options":
        forge(folder, {"cards.max_words": 0})
    elif how in ("NaN", "rows"):
        file = folder / ("vectors.npy" if how == "NaN" else "rows.npy")
        column = np.load(file)
        column[0] = np.nan if how == "NaN" else 1
        np.save(file, column)
        forge(folder, {})
    else:
        content = bytearray((folder / how).read_bytes())
        content[: len(content) // 2] = b"\x07" * (len(content) // 2)
        (folder / how).write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("version", "format version 9"),
        ("foreign", "not a dense index"),
        ("not json", "damaged"),
        ("no manifest", "no manifest"),
        ("no file", "rows.npy is missing"),
        ("cut", "index.faiss has"),
        ("options", "max_words"),
        ("NaN", "vectors holds numbers that are not finite"),
        ("rows", "rows does not number 90 rows"),
        ("vectors.npy", "vectors.npy was altered"),
        ("rows.npy", "rows.npy was altered"),
        ("entities.arrow", "entities.arrow was altered"),
        ("index.faiss", "index.faiss was altered"),
    ],
)
def test_damaged_and_foreign_folders_are_refused(how: str, says: str, tmp_path: Path) -> None:
    DenseIndex.build(_many(90), TrigramEncoder(), kind="hnsw").save(tmp_path / "index")
    DenseIndex.open(tmp_path / "index")
    _spoil(tmp_path / "index", how)
    with pytest.raises(LinkIndexError, match=says) as caught:
        DenseIndex.open(tmp_path / "index")
    assert "DenseIndex.build" in str(caught.value) or "max_words" in str(caught.value)


def test_what_is_no_index_is_not_replaced(tmp_path: Path) -> None:
    index = DenseIndex.build(_many(90), TrigramEncoder())
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(ExistsError, match="no dense index"):
        index.save(tmp_path, force=True)
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_faults_of_the_caller_are_told() -> None:
    index = DenseIndex.build(_many(9), TrigramEncoder())
    with pytest.raises(LinkIndexError, match="trigrams/32"):
        index.add(_many(10), TrigramEncoder(32))
    with pytest.raises(LinkingError, match=r"\(2, 3\)"):
        index.search(np.zeros((2, 3)), 1)
    with pytest.raises(LinkingError, match="k=0"):
        index.search(np.zeros((2, 64)), 0)
    with pytest.raises(LinkingError, match="'tree'"):
        DenseIndex.build(_many(9), TrigramEncoder(), kind="tree")  # type: ignore[arg-type]


def test_the_kind_goes_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (0, 50_000, 50_001, 1_000_000, 1_000_001)
    assert [approximate.kind_for(n) for n in sizes] == ["flat", "flat", "hnsw", "hnsw", "ivf"]
    monkeypatch.setattr(approximate, "FLAT_MOST", 10)
    assert DenseIndex.build(_many(11), TrigramEncoder()).manifest.kind == "hnsw"


def test_the_report_counts_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, encoder = atlas.graph(), TrigramEncoder()
    exact = DenseIndex.build(graph, encoder, kind="flat").report(n_queries=40)
    assert [share for _, share in exact.recall] == [1.0, 1.0, 1.0]
    assert exact.vector_bytes == graph.n_entities * 64 * 2
    index = DenseIndex.build(graph, encoder, kind="ivf")
    report = index.report(n_queries=40)
    assert all(0.5 < share <= 1.0 for _, share in report.recall)
    assert report.index_bytes > graph.n_entities * 64 * 2
    codes = DenseIndex.build(graph, encoder, kind="pq").report(n_queries=40)
    assert all(0.5 < share <= 1.0 for _, share in codes.recall)
    monkeypatch.setattr(approximate, "LISTS_SEARCHED", 1)
    assert index.report(n_queries=40).recall[2][1] < report.recall[2][1]
    assert str(report).startswith(f"ivf index of {graph.n_entities} entities: recall")
    empty = DenseIndex.build(_graph({}), encoder).report()
    assert (empty.n_queries, empty.recall) == (0, ((1, 0.0), (5, 0.0), (30, 0.0)))
    assert dense_index.DenseIndex.build(_graph({}), encoder).search(np.ones((1, 64)), 3) == [[]]
