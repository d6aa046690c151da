"""Cached links: equal, bounded, shared by processes, and never silently wrong."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from entity_linking import DictionaryLinker, LinkedText, LinkingError, gold_link
from entity_linking.cache import FILE_NAME, CachedLinker, fingerprint
from entity_linking.errors import LinkIndexError
from kg_loaders import KnowledgeGraph

TEXTS = ["In Paris.", "In Berlin, Germany.", "nothing", "In Paris.", ""]


class Counting:
    """Remembers what it was asked."""

    def __init__(self, linker: DictionaryLinker) -> None:
        self.linker, self.n_texts = linker, 0

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        self.n_texts += len(texts)
        return self.linker.link(texts)

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        self.n_texts += len(texts)
        return self.linker.disambiguate(texts)


@pytest.fixture
def linker(small_graph: KnowledgeGraph) -> Counting:
    return Counting(DictionaryLinker(small_graph))


def test_a_hit_equals_what_was_computed(linker: Counting, tmp_path: Path) -> None:
    expected = linker.linker.link(TEXTS)
    cached = CachedLinker(linker, tmp_path / "cache", "one")
    assert cached.link(TEXTS) == expected
    assert linker.n_texts == 4, "a text that comes twice is asked once"
    assert cached.link(TEXTS[::-1]) == expected[::-1]
    again = CachedLinker(linker, tmp_path / "cache", "one")
    assert again.link(TEXTS) == expected
    assert (linker.n_texts, again.hits, again.misses, len(again)) == (4, 5, 0, 4)


def test_keys_and_mentions_part_the_results(linker: Counting, tmp_path: Path) -> None:
    one, two = (CachedLinker(linker, tmp_path, key) for key in ("one", "two"))
    one.link(["In Paris."])
    two.link(["In Paris."])
    assert linker.n_texts == 2
    text = LinkedText("In Paris.", (gold_link(3, 8, None),), "7")
    actual = one.disambiguate([text])
    assert (actual[0].id, actual[0].links[0].entity) == ("7", "Q90")
    assert one.disambiguate([replace(text, id="8")]) == [replace(actual[0], id="8")]
    assert linker.n_texts == 3
    other = replace(text, links=(gold_link(0, 2, None),))
    assert one.disambiguate([other])[0].links[0].entity is None


def test_the_oldest_go_first(linker: Counting, tmp_path: Path) -> None:
    cached = CachedLinker(linker, tmp_path, "one", max_texts=3)
    for number in range(10):
        cached.link([f"Paris {number}"])
    assert len(cached) == 3
    cached.link(["Paris 9", "Paris 8", "Paris 7"])
    assert linker.n_texts == 10
    cached.link(["Paris 0"])
    assert linker.n_texts == 11
    cached.clear()
    assert len(cached) == 0
    assert cached.link(["Paris 9"]) == linker.linker.link(["Paris 9"])


def test_more_texts_than_a_query_takes(linker: Counting, tmp_path: Path) -> None:
    cached = CachedLinker(linker, tmp_path, "one")
    texts = [f"Paris {number}" for number in range(1201)]
    assert cached.link(texts) == cached.link(texts) == linker.linker.link(texts)
    assert cached.hits == 1201


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def _overwrite(file: Path) -> None:
    file.write_bytes(b"this is no database at all" * 500)


def _flip(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        (value,) = database.execute("SELECT value FROM result").fetchone()
        changed = value.replace(b"Q90", b"Q91")
        assert changed != value
        database.execute("UPDATE result SET value = ?", (changed,))


def _remove(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("damage", [_truncate, _overwrite, _flip, _remove])
def test_damage_is_told_with_the_file(
    linker: Counting, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    cached = CachedLinker(linker, tmp_path, "one")
    cached.link(["In Paris."])
    damage(tmp_path / FILE_NAME)
    with pytest.raises(LinkIndexError, match=FILE_NAME):
        cached.link(["In Paris."])


def test_another_database_is_left_alone(linker: Counting, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database, database:
        database.execute("CREATE TABLE result (x)")
    with pytest.raises(LinkIndexError, match="not a cache of links"):
        CachedLinker(linker, tmp_path, "one").link(["In Paris."])


def _work(folder: str, graph: KnowledgeGraph, first: int) -> None:
    cached = CachedLinker(DictionaryLinker(graph), folder, "one")
    for number in range(first, first + 30):
        cached.link([f"In Paris {number}.", "In Berlin."])


def test_processes_share_a_folder(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_work, args=(str(tmp_path), small_graph, first), daemon=True)
        for first in (0, 15)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    cached = CachedLinker(DictionaryLinker(small_graph), tmp_path, "one")
    assert len(cached) == 46
    texts = [f"In Paris {number}." for number in range(45)]
    assert cached.link(texts) == DictionaryLinker(small_graph).link(texts)
    assert cached.misses == 0


@dataclass(frozen=True)
class Settings:
    method: str
    languages: tuple[str, ...] = ()


def test_a_fingerprint_names_graph_and_settings() -> None:
    base = fingerprint("abc", Settings("prior"))
    assert base == fingerprint("abc", {"languages": (), "method": "prior"})
    others = {
        fingerprint("abd", Settings("prior")),
        fingerprint("abc", Settings("mix")),
        fingerprint("abc", Settings("prior", ("en",))),
    }
    assert len(others | {base}) == 4
    with pytest.raises(LinkingError, match="cannot be written as JSON"):
        fingerprint("abc", {"what": object()})


@pytest.mark.parametrize(("key", "max_texts"), [("", 5), ("one", 0)])
def test_wrong_settings_of_a_cache(
    linker: Counting, tmp_path: Path, key: str, max_texts: int
) -> None:
    with pytest.raises(LinkingError):
        CachedLinker(linker, tmp_path, key, max_texts=max_texts)
