"""The table of keys finds every key and nothing else; strings decide where hashes collide."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking.names import Gates, NameIndex, NameLinker
from entity_linking.names import keys as module
from entity_linking.names.keys import find_keys, key_table, require_key_table, token_hashes
from entity_linking.surfaces import cut_forms, marked_key
from kg_loaders import Text, TextKind, graph_from_records

WORDS = st.lists(st.sampled_from(["a", "ab", "b", ".", "東", "\U0001f469"]), min_size=1, max_size=4)


def table_of(keys: list[list[str]]) -> np.ndarray:
    return key_table(pa.array(sorted(set(map(marked_key, keys))), pa.large_string()))


@pytest.mark.parametrize("n", [1, 2, 32_768])
@settings(deadline=None)
@given(st.lists(st.lists(WORDS, max_size=8), min_size=1, max_size=3), st.lists(WORDS, max_size=5))
def test_what_is_found_are_the_keys(
    n: int, tables: list[list[list[str]]], texts: list[list[str]]
) -> None:
    keys = [key for of_table in tables for key in of_table]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "KEYS_PER_CHUNK", n)
        results = [table_of(table) for table in tables]
    every = [*texts, *keys]
    cut = cut_forms([" ".join(words) for words in every])
    first, stops = find_keys(results, token_hashes(cut.codes, cut.begins, cut.stops), cut.limits)
    expected = []
    n_before = 0
    for words in every:
        for at in range(len(words)):
            actual = [stop for stop in range(len(words), at, -1) if words[at:stop] in keys]
            expected.extend((n_before + at, n_before + stop) for stop in actual)
        n_before += len(words)
    assert list(zip(first.tolist(), stops.tolist(), strict=True)) == expected


def test_a_large_table_finds_each_of_its_keys_and_no_other_word() -> None:
    result = table_of([[f"w{i}"] for i in range(50_000)])
    cut = cut_forms([f"w{i}" for i in range(100_000)])
    hashes = token_hashes(cut.codes, cut.begins, cut.stops)
    first, _ = find_keys([result], hashes, cut.limits)
    assert np.array_equal(first, np.arange(50_000))
    assert len(result) < 2.1 * 50_000


def test_no_index_and_no_text_hold_no_key() -> None:
    cut = cut_forms(["a b"])
    hashes = token_hashes(cut.codes, cut.begins, cut.stops)
    for tables in ([], [table_of([])]):
        assert [len(each) for each in find_keys(tables, hashes, cut.limits)] == [0, 0]
    assert len(find_keys([table_of([["a"]])], hashes[:0], cut.limits[:1])[0]) == 0


@pytest.mark.parametrize("table", [[], [1], [1, 0], [0, 2**64 - 1], [2, 2**64 - 1]])
def test_a_table_that_cannot_be_searched_is_refused(table: list[int]) -> None:
    with pytest.raises(ValueError, match="key_table"):
        require_key_table(np.array(table, np.uint64))
    require_key_table(table_of([]))


@settings(deadline=None, max_examples=25)
@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=4))
def test_where_all_hashes_are_one_the_same_mentions_are_found(
    labels: list[list[str]], texts: list[list[str]]
) -> None:
    graph = graph_from_records(
        Text(f"Q{i}", TextKind.LABEL, " ".join(words)) for i, words in enumerate(labels)
    )
    lines = [" ".join(words) for words in texts]
    gates = Gates(min_length=1, stop_words=frozenset())
    linked = NameLinker(NameIndex.build(graph), gates).link(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MIXER", np.uint64(0))
        patch.setattr(module, "_INT_MIXER", 0)
        collided = NameIndex.build(graph)
        assert len(np.unique(collided.segments[0].key_table[1:])) == 2
        assert NameLinker(collided, gates).link(lines) == linked
        alone = NameLinker(collided, gates)
        assert [alone.link([line])[0] for line in lines] == linked
