"""Keys as a tree of words: every key and nothing else, whatever is enumerated at once."""

from __future__ import annotations

import marisa_trie
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking.names import keys as module
from entity_linking.names.keys import KnownKeys, Step
from entity_linking.surfaces import marked_key

WORDS = st.lists(st.sampled_from(["a", "ab", "b", ".", "東"]), min_size=1, max_size=4)


def ask(known: KnownKeys, words: list[str]) -> tuple[bool, bool]:
    """Whether these words are a key, and whether a longer key begins with them."""
    step: Step | None = known[words[0]]
    for word in words[1:]:
        step = None if step is None or step.further is None else step.further.get(word)
    return (False, False) if step is None else (step.is_key, step.further is not None)


@pytest.mark.parametrize("most", [0, 1, 4_096])
@given(st.lists(st.lists(WORDS, max_size=8), min_size=1, max_size=3), st.lists(WORDS, min_size=1))
def test_steps_are_those_of_the_keys(
    most: int, tries: list[list[list[str]]], asked: list[list[str]]
) -> None:
    known = KnownKeys(marisa_trie.Trie(map(marked_key, own)) for own in tries)
    keys = [key for own in tries for key in own]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_AT_ONCE", most)
        for words in [*asked, *keys]:
            longer = [key for key in keys if key[: len(words)] == words != key]
            assert ask(known, words) == (words in keys, bool(longer)), words


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STEPS", 10)
    known = KnownKeys([marisa_trie.Trie([" new  york "])])
    for word in map(str, range(1_000)):
        assert known[word] is None
        assert len(known) <= 10
    assert known["new"] is not None
