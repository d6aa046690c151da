"""`KnownKeys`: the keys of an index as a tree of words, grown as texts bring the words up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import marisa_trie

from entity_linking.surfaces import marked_key

MOST_STEPS = 400_000
"""Of some 200 bytes each."""

MOST_AT_ONCE = 4_096


class Step:
    """What is known after some words: whether they are a key, and the words that keys go on with.

    `further` is None where nothing goes on.
    """

    __slots__ = ("further", "is_key")

    def __init__(self, is_key: bool = False) -> None:
        self.is_key = is_key
        self.further: dict[str, Step] | _Further | None = None


class KnownKeys(dict[str, Step | None]):
    """Words and the step after each, looked up in tries of `entity_linking.surfaces.marked_keys`.

    A word that no key begins with has None. Only `[]` looks words up.

    >>> known = KnownKeys([marisa_trie.Trie([" new  york "])])
    >>> new, york = map(known.__getitem__, ["new", "york"])
    >>> york is None, new.is_key, new.further.get("york").is_key
    (True, False, True)
    """

    def __init__(self, tries: Iterable[marisa_trie.Trie]) -> None:
        super().__init__()
        self._tries = list(tries)
        self._n_steps = 0

    def __missing__(self, word: str) -> Step | None:
        if self._n_steps >= MOST_STEPS:
            self.clear()
            self._n_steps = 0
        self[word] = step = self.after([word])
        return step

    def after(self, words: Sequence[str]) -> Step | None:
        """The step after these words; None if no key begins so."""
        self._n_steps += 1
        key = marked_key(words)
        step = Step(is_key=any(key in trie for trie in self._tries))
        longer = [*islice(self._longer(key), MOST_AT_ONCE + 1)]
        if len(longer) > MOST_AT_ONCE:
            step.further = _Further(self, words)
        elif longer:
            self._grow(step, longer, len(words))
        elif not step.is_key:
            return None
        return step

    def _longer(self, key: str) -> Iterator[str]:
        return chain.from_iterable(trie.iterkeys(f"{key} ") for trie in self._tries)

    def _grow(self, first: Step, keys: Iterable[str], n_words: int) -> None:
        for key in keys:
            step = first
            for word in key.split()[n_words:]:
                further = step.further
                if not isinstance(further, dict):
                    further = step.further = {}
                known = further.get(word)
                if known is None:
                    self._n_steps += 1
                    known = further[word] = Step()
                step = known
            step.is_key = True


class _Further:
    """The words that too many keys go on with, looked up one by one."""

    def __init__(self, known: KnownKeys, words: Sequence[str]) -> None:
        self._known, self._words = known, tuple(words)
        self._met: dict[str, Step | None] = {}

    def get(self, word: str) -> Step | None:
        if word not in self._met:
            self._met[word] = self._known.after([*self._words, word])
        return self._met[word]
