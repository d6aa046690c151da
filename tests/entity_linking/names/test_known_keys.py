"""Keys as a tree of words: every key and nothing else, whatever is listed at once."""

from __future__ import annotations

import marisa_trie
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking.names import keys as module
from entity_linking.names.keys import KnownKeys
from entity_linking.surfaces import marked_key

WORDS = st.lists(st.sampled_from(["a", "ab", "b", ".", "東"]), min_size=1, max_size=4)


@pytest.mark.parametrize("most", [0, 1, 4_096])
@given(st.lists(st.lists(WORDS, max_size=8), min_size=1, max_size=3), st.lists(WORDS, min_size=1))
def test_stops_are_those_of_the_keys(
    most: int, tries: list[list[list[str]]], texts: list[list[str]]
) -> None:
    known = KnownKeys(marisa_trie.Trie(map(marked_key, own)) for own in tries)
    keys = [key for own in tries for key in own]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_LISTED", most)
        for words in [*texts, *keys, *texts]:
            for at, word in enumerate(words):
                step = known[word]
                assert (step is None) == all(key[0] != word for key in keys)
                stops = range(len(words), at, -1)
                expected = [stop for stop in stops if words[at:stop] in keys]
                assert expected == (
                    [] if step is None else known.stops(step, words, at, len(words))
                )


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WORDS", 10)
    known = KnownKeys([marisa_trie.Trie([" new  york "])])
    for word in map(str, range(1_000)):
        assert known[word] is None
        assert len(known) <= 10
    assert known["new"] is not None
