"""`KnownKeys`: the keys of an index as a tree of words, grown where texts lead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice

import marisa_trie

from entity_linking.surfaces import marked_key

MOST_WORDS = 1_000_000
"""Remembered at most, of some 100 bytes each."""

MOST_LISTED = 4_096


class Step:
    """What is known after some words: whether they are a key, and the words that keys go on with.

    `further` has `UNMET` for a word that no text has led to yet; `others` stands for the words that
    it does not have: None, or `UNMET` where there are too many to list.
    """

    __slots__ = ("further", "is_key", "others")

    def __init__(self, is_key: bool = False) -> None:
        self.is_key = is_key
        self.further: dict[str, Step | None] = {}
        self.others: Step | None = None


UNMET = Step()


class KnownKeys(dict[str, Step | None]):
    """Words and the step after each, looked up in tries of `entity_linking.surfaces.marked_keys`.

    A word that no key begins with has None. Only `[]` looks words up.

    >>> known = KnownKeys([marisa_trie.Trie([" new ", " new  york "])])
    >>> words = ["new", "york", "york"]
    >>> [known[word] is None for word in words], known.stops(known["new"], words, 0, 3)
    ([False, True, True], [2, 1])
    """

    def __init__(self, tries: Iterable[marisa_trie.Trie]) -> None:
        super().__init__()
        self._tries = list(tries)
        self._n_words = 0

    def __missing__(self, word: str) -> Step | None:
        if self._n_words >= MOST_WORDS:
            self.clear()
            self._n_words = 0
        self[word] = step = self._after([word])
        return step

    def stops(self, step: Step, words: Sequence[str], at: int, last: int) -> list[int]:
        """Where the keys that begin with the word at `at` end before `last`, longest first.

        `step` is the one after that word.
        """
        stops: list[int] = []
        known: Step | None = step
        stop = at
        while known is not None:
            stop += 1
            if known.is_key:
                stops.append(stop)
            if stop == last:
                break
            further, word = known.further, words[stop]
            known = further.get(word, known.others)
            if known is UNMET:
                known = further[word] = self._after(words[at : stop + 1])
        stops.reverse()
        return stops

    def _after(self, words: Sequence[str]) -> Step | None:
        """The step after these words; None if no key begins so."""
        key, n = marked_key(words), len(words)
        step = Step(is_key=any(key in trie for trie in self._tries))
        keys = chain.from_iterable(trie.iterkeys(f"{key} ") for trie in self._tries)
        longer = list(islice(keys, MOST_LISTED + 1))
        if len(longer) > MOST_LISTED:
            step.others = UNMET
        elif longer:
            step.further = dict.fromkeys([key.split(maxsplit=n + 1)[n] for key in longer], UNMET)
        self._n_words += 1 + len(step.further)
        return step if step.is_key or longer else None
