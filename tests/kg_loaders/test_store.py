"""The graph, its folder, and what happens to a folder that was damaged."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg_loaders import (
    GraphMismatchError,
    KnowledgeGraph,
    StoreError,
    Text,
    TextKind,
    Triple,
    UnknownNodeError,
    Vocabulary,
    assemble,
    graph_from_records,
)
from kg_loaders.disk.keys import sorted_distinct
from kg_loaders.errors import ExistsError, WriteError

FILES = sorted(
    [f"{name}.npy" for name in ("triples", "out_offsets", "in_offsets", "in_order")]
    + ["entities.arrow", "relations.arrow", "manifest.json"]
    + [
        f"{kind}_texts/{name}"
        for kind in ("entity", "relation")
        for name in ("offsets.npy", "kinds.npy", "languages.npy", "counts.npy", "values.arrow")
    ]
)


def names_of(folder: Path) -> list[str]:
    return sorted(f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file())


@pytest.fixture
def saved(small_graph: KnowledgeGraph, tmp_path: Path) -> Path:
    small_graph.save(tmp_path / "kg")
    return tmp_path / "kg"


def test_save_and_open(small_graph: KnowledgeGraph, saved: Path) -> None:
    assert names_of(saved) == FILES
    opened = KnowledgeGraph.open(saved, verify=True)
    assert opened.content_hash == small_graph.content_hash
    np.testing.assert_array_equal(opened.triples, small_graph.triples)
    paris = opened.entities.id("Q90")
    assert opened.label(paris) == "Paris"
    assert opened.aliases(paris) == [("City of Light", 3)]
    assert opened.description(paris) == "capital of France"
    assert opened.relation_label(opened.relations.id("P37")) == "official language"
    assert sorted(os.listdir(saved.parent)) == ["kg"]


def test_an_empty_graph_has_a_folder(tmp_path: Path) -> None:
    graph = graph_from_records([])
    graph.save(tmp_path / "kg")
    opened = KnowledgeGraph.open(tmp_path / "kg", verify=True)
    assert (opened.n_entities, opened.n_triples, opened.content_hash) == (0, 0, graph.content_hash)
    assert opened.contains(np.array([[0, 0, 0]], np.int32)).tolist() == [False]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "empty", "half", "longer", "altered", "zeroed"])
def test_damaged_folder(saved: Path, name: str, how: str) -> None:
    file = saved / name
    data = bytearray(file.read_bytes())
    if how == "missing":
        file.unlink()
    else:
        data[len(data) // 2] ^= 0xFF
        changed = {
            "empty": b"", "half": data[: len(data) // 2], "longer": data + b"\0",
            "altered": data, "zeroed": bytes(len(data)),
        }[how]  # fmt: skip
        file.write_bytes(changed)
    with pytest.raises(StoreError, match="kept kg build"):
        KnowledgeGraph.open(saved, verify=True)
    if name != "manifest.json" and how in ("missing", "empty", "half", "longer"):
        with pytest.raises(StoreError, match=file.name):
            KnowledgeGraph.open(saved)


def test_the_manifest_covers_itself(saved: Path) -> None:
    manifest = saved / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace("CC0-1.0", "CC0-1.1"))
    with pytest.raises(StoreError, match=r"manifest.json is damaged.*kept kg build"):
        KnowledgeGraph.open(saved)
    manifest.write_text(text.replace('"format_version": 2', '"format_version": 99'))
    with pytest.raises(StoreError, match="version 99"):
        KnowledgeGraph.open(saved)


def test_a_graph_of_the_first_format_is_refused_by_name(saved: Path) -> None:
    (saved / "manifest.json").write_text('{"format_version": 1, "n_entities": 3}')
    with pytest.raises(StoreError, match=r"version 1, this kept reads 2; .*kept kg build --force"):
        KnowledgeGraph.open(saved)


def test_save_refuses_and_forces(small_graph: KnowledgeGraph, saved: Path) -> None:
    other = small_graph.with_triples(small_graph.triples[:3], note="three")
    with pytest.raises(ExistsError, match="--force"):
        other.save(saved)
    old = KnowledgeGraph.open(saved)
    other.save(saved, force=True)
    assert KnowledgeGraph.open(saved, verify=True).n_triples == 3
    assert old.triples[-1].tolist() == small_graph.triples[-1].tolist()
    (saved.parent / "mine").mkdir()
    (saved.parent / "mine" / "thesis.txt").touch()
    with pytest.raises(ExistsError, match="no knowledge graph"):
        other.save(saved.parent / "mine", force=True)
    assert sorted(os.listdir(saved.parent)) == ["kg", "mine"]


def test_save_where_one_may_not(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        small_graph.save(tmp_path / "file" / "kg")


SAVER = """
import os, signal, sys
from multiprocessing import get_context
from pathlib import Path
import kg_loaders.disk.columns as columns
from kg_loaders import Triple, graph_from_records
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
real = columns.sha256_of
def dying(file):
    if file.name == "triples.npy":
        os.kill(os.getpid(), int(sys.argv[2]))
    return real(file)
columns.sha256_of = dying
graph_from_records([Triple("a", "r", "b")]).save(Path(sys.argv[1]), force=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_mid_write(saved: Path, how: signal.Signals) -> None:
    """The old graph stays whole; SIGINT leaves nothing, SIGKILL only what the next save sweeps."""
    before = KnowledgeGraph.open(saved).content_hash
    run = subprocess.run([sys.executable, "-c", SAVER, saved, str(int(how))], capture_output=True)
    assert run.returncode != 0
    assert KnowledgeGraph.open(saved, verify=True).content_hash == before
    left = [name for name in os.listdir(saved.parent) if name != "kg"]
    assert all(name.endswith((".part", ".lock")) for name in left)
    assert bool(left) == (how == signal.SIGKILL)
    graph_from_records([Triple("a", "r", "b")]).save(saved, force=True)
    assert os.listdir(saved.parent) == ["kg"]


def test_pickles_as_a_path(small_graph: KnowledgeGraph, saved: Path) -> None:
    opened = KnowledgeGraph.open(saved)
    data = pickle.dumps(opened)
    assert len(data) < 500
    assert pickle.loads(data).content_hash == opened.content_hash
    copy = pickle.loads(pickle.dumps(small_graph))
    assert copy.label(3) == small_graph.label(3)
    np.testing.assert_array_equal(copy.triples, small_graph.triples)
    shutil.rmtree(saved)
    small_graph.with_triples(small_graph.triples[:3], note="").save(saved)
    with pytest.raises(GraphMismatchError, match=opened.content_hash):
        pickle.loads(data)


def test_id_space(small_graph: KnowledgeGraph) -> None:
    split = small_graph.with_triples(small_graph.triples[:3], note="split")
    small_graph.require_id_space(split.id_space_hash)
    assert split.content_hash != small_graph.content_hash
    other = graph_from_records([Triple("a", "r", "b")])
    with pytest.raises(GraphMismatchError) as caught:
        small_graph.require_id_space(other.id_space_hash)
    assert other.id_space_hash in str(caught.value)
    assert small_graph.id_space_hash in str(caught.value)


ids = st.integers(-2, 6)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(ids, ids, ids)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3))),
)
def test_contains_against_a_set(
    queries: list[tuple[int, ...]], rows: list[tuple[int, ...]]
) -> None:
    base = graph_from_records([Text(str(i), TextKind.LABEL, "x") for i in range(4)])
    graph = assemble(
        triples=np.array(rows, np.int32).reshape(-1, 3),
        entities=base.entities,
        relations=Vocabulary.of("abc"),
        entity_texts=base.entity_texts,
        relation_texts=graph_from_records(
            [Text(c, TextKind.LABEL, "x", "", 0, True) for c in "abc"]
        ).relation_texts,
        languages=(), sources=(), licence="",
    )  # fmt: skip
    rows_to_find = np.array(queries, np.int32).reshape(-1, 3)
    assert graph.contains(rows_to_find).tolist() == [query in set(rows) for query in queries]
    actual = graph.find(rows_to_find)
    np.testing.assert_array_equal(graph.triples[actual[actual >= 0]], rows_to_find[actual >= 0])
    assert [tuple(row) for row in graph.triples.tolist()] == sorted(set(rows))
    tails = sorted(set(rows), key=lambda row: (row[2], row[1], row[0]))
    assert [tuple(row) for row in graph.triples[graph.in_order].tolist()] == tails
    for entity in range(4):
        assert [tuple(t) for t in graph.incoming(entity).tolist()] == [
            row for row in tails if row[2] == entity
        ]


@pytest.mark.parametrize("size", [3, 2**21, 2**21 + 1, 2**22, 2**31 - 1])
@settings(deadline=None, max_examples=20)
@given(rows=st.lists(st.tuples(*[st.integers(-2, 2)] * 3), max_size=12))
def test_sorting_within_and_beyond_64_bits(size: int, rows: list[tuple[int, int, int]]) -> None:
    """Keys of three ids outgrow 64 bits from 2**21 on; ids are of both ends, and repeated."""
    ids = np.array(rows * 2, np.int64).reshape(-1, 3) % size
    actual = sorted_distinct(ids.astype(np.int32), size, size)
    assert [tuple(row) for row in actual.tolist()] == sorted(set(map(tuple, ids.tolist())))
    assert actual.dtype == np.int32


def test_ids_outside_the_vocabularies() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (50, 3)).astype(np.int32)
    with pytest.raises(StoreError, match="outside"):
        sorted_distinct(rows, 2, 3)


def test_permuting_records_changes_nothing() -> None:
    records = [
        Triple("b", "r", "a"), Triple("a", "s", "b"), Triple("b", "r", "a"),
        Text("a", TextKind.ALIAS, "x", "de", 2), Text("a", TextKind.ALIAS, "x", "de", 5),
        Text("a", TextKind.ALIAS, "y", "en", 1), Text("c", TextKind.TYPE, "t"),
        Text("r", TextKind.LABEL, "rel", "en", 0, True),
    ]  # fmt: skip
    graphs = [graph_from_records(rows, languages=("en",)) for rows in (records, records[::-1])]
    assert graphs[0].content_hash == graphs[1].content_hash
    graph = graphs[0]
    assert (graph.n_entities, graph.n_triples) == (3, 2)
    assert graph.aliases(0) == [("y", 1), ("x", 5)]
    assert graph.manifest.languages == ("en", "", "de")


@pytest.mark.parametrize(
    "changed",
    [
        Text("a", TextKind.ALIAS, "x", "en", 1), Text("a", TextKind.LABEL, "x", "de", 2),
        Text("a", TextKind.ALIAS, "y", "de", 2), Text("b", TextKind.ALIAS, "x", "de", 2),
        Text("a", TextKind.ALIAS, "x", "de", 3), Text("a", TextKind.ALIAS, "x", "", 2),
    ],
)  # fmt: skip
def test_the_content_hash_sees_every_field(changed: Text) -> None:
    base = [Triple("a", "r", "b")]
    first = graph_from_records([*base, Text("a", TextKind.ALIAS, "x", "de", 2)])
    assert graph_from_records([*base, changed]).content_hash != first.content_hash


def test_the_content_hash_ignores_how_arrays_were_cut(small_graph: KnowledgeGraph) -> None:
    names = ["0", *small_graph.entities, "~"]
    cut = Vocabulary(pa.array(names, pa.large_string()).slice(1, len(names) - 2))
    again = assemble(
        triples=np.array(small_graph.triples[::-1]), entities=cut, relations=small_graph.relations,
        entity_texts=small_graph.entity_texts, relation_texts=small_graph.relation_texts,
        languages=small_graph.manifest.languages, sources=(), licence="",
    )  # fmt: skip
    assert again.content_hash == small_graph.content_hash


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text()), st.lists(st.text()))
def test_vocabulary_ids(names: list[str], unknown: list[str]) -> None:
    vocabulary = Vocabulary.of(names)
    assert list(vocabulary) == sorted(set(names))
    wanted = [*names, *unknown]
    oracle = [sorted(set(names)).index(n) if n in names else -1 for n in wanted]
    assert vocabulary.ids(wanted).tolist() == oracle
    assert [vocabulary.find(name) for name in wanted] == [None if i < 0 else i for i in oracle]


def test_few_and_many_ids_agree() -> None:
    vocabulary = Vocabulary.of(str(i) for i in range(3000))
    few = ["17", "x", "2999"]
    assert vocabulary.ids(few).tolist() == vocabulary.ids(few * 100).tolist()[:3]
    assert vocabulary.ids(pa.array(few, pa.large_string())).tolist() == vocabulary.ids(few).tolist()
    with pytest.raises(UnknownNodeError, match="'x'"):
        vocabulary.id("x")
    with pytest.raises(IndexError, match="3000"):
        vocabulary.name(3000)


def _label_of_first(graph: KnowledgeGraph) -> str:
    return graph.label(0)


def test_spawned_workers_open_the_folder(small_graph: KnowledgeGraph, saved: Path) -> None:
    opened = KnowledgeGraph.open(saved)
    with get_context("spawn").Pool(1) as pool:
        labels = pool.map(_label_of_first, [opened, small_graph])
    assert labels == [small_graph.label(0)] * 2
