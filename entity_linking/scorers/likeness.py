"""`NameScorer`: how much a mention reads like the names of a candidate.

The names of a batch are compared as rows of sparse counts (character pairs, words). Informative
words and acronyms, which take rules of many steps, are made only of names that could have the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from rapidfuzz.distance import Prefix
from rapidfuzz.process import cpdist

from entity_linking.mentions import LinkedText
from entity_linking.names.rules.variants import acronyms, name_words, without_possessive
from entity_linking.names.rules.words import CONNECTORS, LEGAL_SUFFIXES, NUMBERS
from entity_linking.parts import Scores
from entity_linking.scorers.candidate_rows import CandidateRows, Ints
from entity_linking.scorers.features import gather
from entity_linking.surfaces import normalise
from kg_loaders import KnowledgeGraph, TextKind

PAIRS_PER_STEP = 1 << 18
MOST_REMEMBERED = 65_536
_PLAIN = re.compile("[a-z0-9]{2,}")
_PARENTHESES = frozenset(")]）")


class NameScorer:
    """How much the mention reads like the best name of the candidate, 0 to 1 (`name_likeness`)."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph

    def __repr__(self) -> str:
        return f"NameScorer({self._graph!r})"

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`; every pair of a surface and an entity is compared once a batch."""
        rows = CandidateRows.of(texts)
        ids = rows.ids(self._graph)
        surfaces = [
            text.text[link.mention.start : link.mention.end]
            for text in texts
            for link in text.links
        ]
        number_of = {surface: i for i, surface in enumerate(dict.fromkeys(surfaces))}
        surface_of = np.array([number_of[surface] for surface in surfaces], np.int64)[
            rows.mention_of
        ]
        n = self._graph.n_entities + 1
        compared, pair_of = np.unique(surface_of * n + ids + 1, return_inverse=True)
        best = self._best(list(number_of), compared // n, compared % n - 1)
        return rows.split(best[pair_of])

    def _best(self, surfaces: list[str], surface_of: Ints, ids: Ints) -> Scores:
        """The likeness to the best label or alias of each entity, 0 where it has none."""
        texts = self._graph.entity_texts
        pair, rows = gather(ids, texts.offsets, np.arange(len(texts)))
        is_name = np.asarray(texts.kinds)[rows] <= TextKind.ALIAS
        pair, rows = pair[is_name], rows[is_name]
        rows, name_of = np.unique(rows, return_inverse=True)
        names = [*surfaces, *texts.values.take(rows).to_pylist()]
        best = np.zeros(len(ids))
        np.maximum.at(best, pair, likenesses(names, surface_of[pair], len(surfaces) + name_of))
        return best


def likenesses(names: Sequence[str], first: Ints, second: Ints) -> Scores:
    """How alike the pairs of `names` at the places `first` and `second` are, `[pair]`.

    1 if equal, 0.95 if equal but for case, 0.92 with the same informative words or with the letters
    of an acronym of at least three. Informative words are all but legal forms, connectors, middle
    initials and possessives. Else 0.9 times the best of three shares: common words (Dice), common
    beginning (of the longer name), common character pairs with both ends marked (Dice, which falls
    with every edit as an edit distance does and is cheaper).

    >>> names = ["PARIS", "Paris", "Turing", "Alan Turing", "AVX Corp", "AVX"]
    >>> likenesses(names, np.array([0, 2, 4]), np.array([1, 3, 5])).round(2).tolist()
    [0.95, 0.66, 0.92]
    """
    forms = _Forms(names)
    steps = range(0, len(first), PAIRS_PER_STEP)
    parts = [forms.compare(first[i : i + PAIRS_PER_STEP], second[i : i + PAIRS_PER_STEP])
             for i in steps]  # fmt: skip
    return np.concatenate([*parts, np.zeros(0)])


class _Forms:
    """What is compared of some names."""

    def __init__(self, names: Sequence[str]) -> None:
        self._written = [
            name if name.isascii() else normalise(name, fold=False)[0] for name in names
        ]
        self._folded = list(map(str.casefold, self._written))
        self._pairs = _character_pairs(self._folded)
        words = list(map(str.split, self._folded))
        vocabulary = {word: i for i, word in enumerate(dict.fromkeys(chain.from_iterable(words)))}
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        ids = map(vocabulary.__getitem__, chain.from_iterable(words))
        keys = np.fromiter(ids, np.int64, int(sizes.sum()))
        self._words = _counts(keys, sizes, len(vocabulary))
        self._is_short = np.fromiter(map(_is_of_letters, self._written), np.bool_, len(words))
        self._telling, self._is_odd = self._sure_words(list(vocabulary))

    def compare(self, first: Ints, second: Ints) -> Scores:
        """The likeness of each pair."""
        is_same, is_folded = (
            np.fromiter((a == b for a, b in _both(forms, first, second)), np.bool_, len(first))
            for forms in (self._written, self._folded)
        )
        likeness = np.where(is_same, 1.0, 0.95)
        rest = np.flatnonzero(~is_folded)
        a, b = first[rest], second[rest]
        likeness[rest] = 0.9 * np.max(
            [self._prefix(a, b), _dice(self._pairs, a, b), _dice(self._words, a, b)], axis=0
        )
        alike = rest[self._are_told_alike(a, b)]
        likeness[alike] = 0.92
        return likeness

    def _prefix(self, first: Ints, second: Ints) -> Scores:
        ours, theirs = ([self._folded[i] for i in side.tolist()] for side in (first, second))
        if not ours:
            return np.zeros(0)
        longer = np.fromiter(map(max, map(len, ours), map(len, theirs)), np.float64, len(ours))
        return cpdist(ours, theirs, scorer=Prefix.similarity, dtype=np.int32) / longer

    def _are_told_alike(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """Whether two names have the same informative words, or one is an acronym of the other."""
        common, n = _common(self._telling, first, second), np.diff(self._telling.indptr)
        may_be = (common == n[first]) | self._is_odd[second]
        may_be &= (common == n[second]) | self._is_odd[first]
        alike = np.zeros(len(first), np.bool_)
        tests: tuple[tuple[NDArray[np.bool_], Callable[[int, int], bool]], ...] = (
            (may_be, self._have_same_words),
            (self._is_short[first] | self._is_short[second], self._are_short),
        )
        for candidates, is_so in tests:
            places = np.flatnonzero(candidates & ~alike)
            pairs = zip(first[places].tolist(), second[places].tolist(), strict=True)
            alike[places] = [is_so(a, b) for a, b in pairs]
        return alike

    def _have_same_words(self, first: int, second: int) -> bool:
        words = _telling(self._written[first])
        return bool(words) and words == _telling(self._written[second])

    def _are_short(self, first: int, second: int) -> bool:
        return self._is_short_for(first, second) or self._is_short_for(second, first)

    def _is_short_for(self, short: int, name: int) -> bool:
        if not self._is_short[short]:
            return False
        return self._written[short].replace(".", "") in _acronyms(self._written[name])

    def _sure_words(self, vocabulary: list[str]) -> tuple[Any, NDArray[np.bool_]]:
        """The words that are surely informative, of each name, and whether it has any that may be.

        Rules change words of other signs and single letters, and take a last parenthesis away.
        """
        is_plain = np.array(
            [bool(_PLAIN.fullmatch(word)) and word not in NUMBERS for word in vocabulary], np.bool_
        )
        is_mute = np.array(
            [word in CONNECTORS or word in LEGAL_SUFFIXES for word in vocabulary], np.bool_
        )
        counts = self._words
        has_end = np.array([not _PARENTHESES.isdisjoint(name) for name in self._folded], np.bool_)
        in_parenthesis = np.repeat(has_end, np.diff(counts.indptr))
        is_sure = (is_plain & ~is_mute)[counts.indices] & ~in_parenthesis
        before = np.append(0, np.cumsum(is_sure))
        sure = sp.csr_matrix(
            (np.ones(before[-1], np.int32), counts.indices[is_sure], before[counts.indptr]),
            counts.shape,
        )
        return sure, has_end | (counts @ ~is_plain > 0)


@lru_cache(maxsize=MOST_REMEMBERED)
def _telling(name: str) -> tuple[str, ...]:
    words = tuple(name_words(without_possessive(name)))
    return tuple([word for word in words if len(word) > 1] or words)


_acronyms = lru_cache(maxsize=MOST_REMEMBERED)(acronyms)


def _character_pairs(folded: Sequence[str]) -> Any:
    """How often each name has each pair of neighbouring characters, a blank at both ends."""
    joined = " ".join(["", *folded, ""])
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    is_there = np.zeros(int(codes.max(initial=0)) + 1, np.bool_)
    is_there[codes] = True
    number = np.cumsum(is_there) - 1
    numbered, n_characters = number[codes], int(number[-1]) + 1
    keys = numbered[:-1] * n_characters + numbered[1:]
    sizes = np.fromiter(map(len, folded), np.int64, len(folded)) + 1
    return _counts(keys, sizes, n_characters**2)


def _counts(keys: Ints, sizes: Ints, n_keys: int) -> Any:
    """`[name, key]`: how often; keys stand name by name, `sizes` of each."""
    ends = np.append(0, np.cumsum(sizes))
    counts = sp.csr_matrix((np.ones(len(keys), np.int32), keys, ends), (len(sizes), n_keys))
    counts.sum_duplicates()
    return counts


def _common(counts: Any, first: Ints, second: Ints) -> NDArray[np.int64]:
    """Over the keys of each pair of rows the smaller count."""
    common: NDArray[np.int64] = counts[first].minimum(counts[second]).sum(axis=1)
    return np.asarray(common).ravel()


def _dice(counts: Any, first: Ints, second: Ints) -> Scores:
    total = np.asarray(counts.sum(axis=1)).ravel()
    both = total[first] + total[second]
    shares: Scores = 2 * _common(counts, first, second) / np.maximum(both, 1)
    return shares


def _both(forms: Sequence[str], first: Ints, second: Ints) -> Any:
    return zip(
        map(forms.__getitem__, first.tolist()), map(forms.__getitem__, second.tolist()), strict=True
    )


def _is_of_letters(name: str) -> bool:
    """Whether a name may be an acronym: three capitals or more, with or without points."""
    return name.isupper() and len(name.replace(".", "")) > 2
