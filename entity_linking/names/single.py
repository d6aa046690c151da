"""Mentions of one text: its words looked up in a trie of runs that grows with the texts.

`entity_linking.names.runs.find_runs` finds the same runs in many texts by arrays, whose set-up
takes longer than a short text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from entity_linking.names.keys import GOES_ON, IS_KEY, run_flags, run_hash, word_hash
from entity_linking.parts import Candidates
from entity_linking.simple_texts import cut, cut_folded
from entity_linking.surfaces import normalise

MOST_CHARACTERS = 2_048
"""Texts of more characters are searched in less time by arrays."""
MOST_RUNS = 200_000
"""Runs that a trie remembers before it is emptied, some 150 bytes each."""


class _Run:
    """A run of words that some key begins with.

    `longer` has the runs with one more word, by it, None for those that no key begins with.
    `meaning` is what a run of one word may mean: its surface is its word.
    """

    __slots__ = ("hash", "is_key", "longer", "meaning")

    def __init__(self, hash: int, flags: int, meaning: Candidates) -> None:
        self.hash, self.is_key, self.meaning = hash, bool(flags & IS_KEY), meaning
        self.longer: _Runs | None = {} if flags & GOES_ON else None


_Runs = dict[str, _Run | None]
_UNKNOWN = _Run(0, 0, ())


class RunTrie:
    """The runs of words that keys of `tables` begin with, each looked up when it is first met.

    `choose` says what a surface with this key may mean, as in `NameLinker`.
    """

    def __init__(
        self, tables: Sequence[NDArray[np.uint64]], choose: Callable[[str, str], Candidates]
    ) -> None:
        self._tables, self._choose = tables, choose
        self._first: _Runs = {}
        self._words: dict[str, tuple[str, int]] = {}
        self._n_runs = 0

    def find(
        self, text: str, admits: Callable[[int, int], bool] | None = None
    ) -> tuple[list[tuple[int, int]], list[Candidates]] | None:
        """The leftmost-longest mentions and what each may mean; None for texts of other kinds.

        `admits` lets a stretch of the text through.
        """
        limits: list[int] = []
        parts = cut(text)
        if parts is not None:
            words = parts[1::2]
        elif (folded := cut_folded(text)) is not None:
            words, limits = folded
        else:
            return None
        spans: list[tuple[int, int]] = []
        meanings: list[Candidates] = []
        first, free = self._first, 0
        for at, (word, following) in enumerate(zip(words, [*words[1:], ""], strict=False)):
            run = first.get(word, _UNKNOWN)
            if run is _UNKNOWN:
                run = self._learn(first, word, None)
            if run is None or at < free:
                continue
            stops: Sequence[int] = ()
            if run.longer is not None and run.longer.get(following, _UNKNOWN) is not None:
                stops = self._longer(run, words, at)
            if not stops and not run.meaning:
                continue
            if not limits and parts is not None:
                limits = list(accumulate(map(len, parts)))
            start = limits[2 * at]
            for stop in stops:
                end = limits[2 * stop - 1]
                meaning = self._choose(text[start:end], self._key(words[at:stop]))
                if meaning and (admits is None or admits(start, end)):
                    free = stop
                    break
            else:
                end, meaning = limits[2 * at + 1], run.meaning
                if not meaning or (admits is not None and not admits(start, end)):
                    continue
            spans.append((start, end))
            meanings.append(meaning)
        return spans, meanings

    def _longer(self, run: _Run, words: list[str], at: int) -> list[int]:
        """Where keys of two words or more end that begin with word `at`, the longest first."""
        stops: list[int] = []
        for stop in range(at + 2, len(words) + 1):
            longer, word = run.longer, words[stop - 1]
            if longer is None:
                break
            following = longer.get(word, _UNKNOWN)
            if following is _UNKNOWN:
                following = self._learn(longer, word, run)
            if following is None:
                break
            run = following
            if run.is_key:
                stops.append(stop)
        stops.reverse()
        return stops

    def _learn(self, runs: _Runs, word: str, before: _Run | None) -> _Run | None:
        """The run of `before` and `word`, from now on one of `runs`."""
        self._n_runs += 1
        if self._n_runs > MOST_RUNS:
            self._first, self._words, self._n_runs = {}, {}, 1
        folded = self._words.get(word)
        if folded is None:
            form = normalise(word, fold=True)[0]
            folded = self._words[word] = form, word_hash(form)
        hash = run_hash(folded[1], 0 if before is None else before.hash)
        flags = 0
        for table in self._tables:
            flags |= run_flags(table.data, hash)
        meaning: Candidates = ()
        if before is None and flags & IS_KEY:
            meaning = self._choose(word, f" {folded[0]} ")
        is_needed = meaning or flags & GOES_ON or (before is not None and flags)
        run = runs[word] = _Run(hash, flags, meaning) if is_needed else None
        return run

    def _key(self, words: list[str]) -> str:
        return f" {'  '.join([normalise(word, fold=True)[0] for word in words])} "
