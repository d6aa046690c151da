"""Sealed folders: what is verified, what is remembered, and what may not be trusted."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kg_loaders import KnowledgeGraph, StoreError, graph_from_records
from kg_loaders.disk import seals
from kg_loaders.reading.blocks import TripleBlock
from tests import flips
from tests.flips import forge


@pytest.fixture
def kg(small_graph: KnowledgeGraph, tmp_path: Path) -> Path:
    small_graph.save(tmp_path / "kg")
    return tmp_path / "kg"


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many files were read against their checksums since the last call."""
    read: list[Path] = []
    real = seals.sha256_of
    monkeypatch.setattr(seals, "sha256_of", lambda path: read.append(path) or real(path))

    def count() -> int:
        n = len(read)
        read.clear()
        return n

    return count


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own cache folder, by the environment, as a user has it."""
    monkeypatch.undo()
    monkeypatch.setattr(seals, "memory", _real_memory)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kept" / "verified"


_real_memory = seals.memory


def _settle() -> None:
    """Wait until the clock of the file system has moved on."""
    time.sleep(2 * seals.TICK_NS / 1e9)


# ---- every byte ----------------------------------------------------------------------------------
def test_no_damage_to_a_graph_is_silent_or_a_crash(
    kg: Path, record_property: Callable[[str, object], None]
) -> None:
    actual = flips.outcomes({"graph": (kg, flips.damages(kg))})["graph"]
    bad = [each for each in actual if each.verdict not in ("refused", "same")]
    assert not bad, bad
    n_flips = sum(each.damage.how == "flip" for each in actual)
    assert n_flips >= 100
    assert all(each.verdict == "refused" for each in actual if each.damage.how == "flip")
    record_property("damage to a graph", f"{len(actual)}, none silent, none a crash")


@pytest.mark.parametrize(
    ("column", "position", "value", "message"),
    [
        ("triples", (0, 0), 99, "heads holds"),
        ("triples", (0, 1), -1, "relations of triples holds -1"),
        ("triples", (0, 0), 9, "does not count the triples"),
        ("triples", (0, 1), 6, "not sorted"),
        ("out_offsets", 1, 10**12, "out_offsets falls"),
        ("in_offsets", -1, 10**12, "in_offsets does not begin at 0 and does not end at 15"),
        ("in_order", 0, -1, "in_order holds -1"),
        ("in_order", 0, 1, "in_order does not sort the triples"),
        ("entity_texts/offsets", 1, -5, "entity_texts/offsets falls"),
        ("entity_texts/languages", 0, 1000, "entity_texts/languages holds"),
        ("relation_texts/kinds", 0, 4, "relation_texts/kinds holds"),
        ("entity_texts/counts", 0, 7, "content_hash is"),
    ],
)
def test_ids_lead_nowhere_else_whoever_sealed_them(
    kg: Path, column: str, position: int, value: int, message: str
) -> None:
    rows = np.load(kg / f"{column}.npy")
    rows[position] = value
    np.save(kg / f"{column}.npy", rows)
    forge(kg, {})
    with pytest.raises(StoreError, match=message) as caught:
        KnowledgeGraph.open(kg)
    assert str(kg) in str(caught.value)


@pytest.mark.parametrize("n_rows", [1, 2, 7, 15])
@pytest.mark.parametrize(
    ("column", "rows", "message"),
    [
        ("triples", (6, 7), "not sorted"),
        ("triples", (7, 8), "not sorted"),
        ("in_order", (6, 7), "in_order does not sort the triples"),
        ("in_order", (7, 8), "in_order does not sort the triples"),
        ("in_order", (13, 14), "in_order does not sort the triples"),
    ],
)
def test_damage_is_found_wherever_blocks_of_rows_begin(
    kg: Path, column: str, rows: tuple[int, int], message: str, n_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("kg_loaders.disk.folder.ROWS_AT_ONCE", n_rows)
    KnowledgeGraph.open(kg, verify=True)
    values = np.load(kg / f"{column}.npy")
    values[list(rows)] = values[list(rows[::-1])]
    if column == "triples":
        values[rows[0], 0] = values[rows[1], 0]  # offsets still count
    np.save(kg / f"{column}.npy", values)
    forge(kg, {})
    with pytest.raises(StoreError, match=message):
        KnowledgeGraph.open(kg)


def test_checking_a_graph_holds_a_block_of_rows_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 400_000
    ends = np.random.default_rng(0).integers(0, n, (n, 2)).astype(np.int32)
    block = TripleBlock(ends, np.zeros(n, np.int32), "Q", pa.array(["P1"]))
    graph_from_records([block]).save(tmp_path / "kg")
    monkeypatch.setattr("kg_loaders.disk.folder.ROWS_AT_ONCE", 1000)
    tracemalloc.start()
    try:
        graph = KnowledgeGraph.open(tmp_path / "kg", verify=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert graph.n_triples > 0.99 * n
    assert peak < 8 * n  # not even one key for each triple


@pytest.mark.parametrize("name", ["content_hash", "id_space_hash"])
def test_a_forged_hash_is_found(kg: Path, name: str) -> None:
    forge(kg, {name: "0" * 64})
    with pytest.raises(StoreError, match=f"its {name} is 0000.*but what it holds has"):
        KnowledgeGraph.open(kg)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", "./x", "a\\b", "", "a//b"])
def test_names_outside_the_folder_are_refused(kg: Path, name: str) -> None:
    manifest = kg / "manifest.json"
    values = json.loads(manifest.read_text())
    values["files"][name] = values["files"]["triples.npy"]
    manifest.write_text(json.dumps(values))
    (kg.parent / "x").write_bytes((kg / "triples.npy").read_bytes())
    forge(kg, {})
    with pytest.raises(StoreError, match="none inside the folder"):
        KnowledgeGraph.open(kg)


@pytest.mark.parametrize("name", ["triples.npy", "entity_texts"])
def test_links_are_refused(kg: Path, name: str) -> None:
    (kg / name).rename(kg.parent / "elsewhere")
    (kg / name).symlink_to(kg.parent / "elsewhere")
    with pytest.raises(StoreError, match=f"{name} is a link"):
        KnowledgeGraph.open(kg)
    (kg / name).unlink()
    (kg.parent / "elsewhere").rename(kg / name)
    (kg.parent / "link").symlink_to(kg)  # to the whole folder, which is the user's own affair
    assert KnowledgeGraph.open(kg.parent / "link").n_triples == 15


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[" * 100_000, '{"files": 3}', "\x00", "{" + '"a":{' * 50_000, "1e999"]
)
def test_a_manifest_of_anything_is_refused(kg: Path, text: str) -> None:
    (kg / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest.json|format version"):
        KnowledgeGraph.open(kg)


# ---- what is remembered --------------------------------------------------------------------------
def test_a_second_opening_reads_nothing(memory: Path, kg: Path, n_read: Callable[[], int]) -> None:
    _settle()
    KnowledgeGraph.open(kg)
    assert n_read() == 16
    assert len(list(memory.iterdir())) == 1
    KnowledgeGraph.open(kg)
    assert n_read() == 0
    KnowledgeGraph.open(kg, verify=True)
    assert n_read() == 16


def test_what_changes_is_verified_again(memory: Path, kg: Path) -> None:
    _settle()
    for name in sorted(path.relative_to(kg) for path in kg.rglob("*.*")):
        KnowledgeGraph.open(kg)
        file = kg / name
        content, times = file.read_bytes(), file.stat()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(StoreError, match=file.name):
            KnowledgeGraph.open(kg)
        file.write_bytes(content)
        _settle()


def test_what_is_newer_than_the_clock_can_tell_is_not_remembered(
    memory: Path, kg: Path, n_read: Callable[[], int]
) -> None:
    later = time.time_ns() + 10**10
    os.utime(kg / "triples.npy", ns=(later, later))
    for _ in range(2):
        KnowledgeGraph.open(kg)
        assert n_read() == 16


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"0" * 64, b"x" * 10**6, None])
def test_a_malformed_memory_is_no_memory(
    memory: Path, kg: Path, n_read: Callable[[], int], content: bytes | None
) -> None:
    _settle()
    KnowledgeGraph.open(kg)
    (entry,) = memory.iterdir()
    entry.unlink()
    if content is None:
        os.mkfifo(entry)  # reading it would wait for ever
    else:
        entry.write_bytes(content)
    n_read()
    KnowledgeGraph.open(kg)
    assert n_read() == 16


@pytest.mark.parametrize("what", ["a file", "a link into nothing", "read only"])
def test_without_a_place_for_the_memory_all_is_verified(
    tmp_path: Path, memory: Path, kg: Path, n_read: Callable[[], int], what: str
) -> None:
    cache = tmp_path / "cache"
    if what == "a file":
        cache.write_text("")
    elif what == "a link into nothing":
        cache.symlink_to(tmp_path / "nowhere" / "deep")
    else:
        cache.symlink_to("/proc/self")  # nobody, not even root, makes folders there
    _settle()
    for _ in range(2):
        assert KnowledgeGraph.open(kg).n_triples == 15
        assert n_read() == 16


def test_a_user_without_a_home_is_served(
    monkeypatch: pytest.MonkeyPatch, memory: Path, kg: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert seals.memory() is None
    assert KnowledgeGraph.open(kg).n_triples == 15


def test_the_memory_does_not_grow_for_ever(
    monkeypatch: pytest.MonkeyPatch, memory: Path, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    monkeypatch.setattr(seals, "CACHE_ENTRIES", 4)
    for number in range(9):
        small_graph.save(tmp_path / str(number))
    _settle()
    for number in range(9):
        KnowledgeGraph.open(tmp_path / str(number))
    assert len(list(memory.iterdir())) <= 5
