"""`Segment`: names of entities and the keys that lead to them, as flat arrays and two tries.

    entities          identifiers, sorted, of the entities that no earlier segment has
    popularity        float32 [entity]
    raised            int32 [raised] entities of earlier segments, by their number over all segments
    raised_popularity float32 [raised], what they are here
    names             [name] as written            name_entities int32, number over all segments
    name_sources      uint8, `Source`              name_counts   float32, how often seen
    name_words        uint8, distinct telling words, 0 = not looked up by its words
    keys              trie of folded marked keys (`entity_linking.surfaces`)
    key_offsets       int64 [key+1]                key_names int32, key_kinds uint8 [entry]
    words             trie of folded words
    word_offsets      int64 [word+1]               word_names int32 [posting], ascending in a word

A saved segment is a folder with a file for each, memory-mapped when opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import marisa_trie
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entity_linking.names.rules.variants import Kind, name_variants, name_words
from entity_linking.surfaces import marked_keys, normalise
from kg_loaders.disk.columns import STRINGS
from kg_loaders.vocabulary import Vocabulary, strings

NAMES_PER_CHUNK = 32_768
MOST_WORDS = 8
FEW = 8

TRIES = ("keys", "words")
LAYOUT = {
    "popularity": "<f4",
    "raised": "<i4",
    "raised_popularity": "<f4",
    "name_entities": "<i4",
    "name_sources": "|u1",
    "name_counts": "<f4",
    "name_words": "|u1",
    "key_offsets": "<i8",
    "key_names": "<i4",
    "key_kinds": "|u1",
    "word_offsets": "<i8",
    "word_names": "<i4",
    **dict.fromkeys(("entities", "names"), STRINGS),
    **dict.fromkeys(TRIES, ".marisa"),
}


class Source(IntEnum):
    """Where a name is from. The numbers are the storage format."""

    LABEL = 0
    ALIAS = 1
    COUNTED = 2


@dataclass(frozen=True, slots=True)
class NameRows:
    """Names to index: `values [name]` with entity, source and count of each."""

    values: Sequence[str]
    entities: NDArray[np.int32]
    sources: NDArray[np.uint8]
    counts: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Segment:
    """One part of a `NameIndex`; the module says what the columns are."""

    entities: Vocabulary
    popularity: NDArray[np.float32]
    raised: NDArray[np.int32]
    raised_popularity: NDArray[np.float32]
    names: pa.LargeStringArray
    name_entities: NDArray[np.int32]
    name_sources: NDArray[np.uint8]
    name_counts: NDArray[np.float32]
    name_words: NDArray[np.uint8]
    keys: marisa_trie.Trie
    key_offsets: NDArray[np.int64]
    key_names: NDArray[np.int32]
    key_kinds: NDArray[np.uint8]
    words: marisa_trie.Trie
    word_offsets: NDArray[np.int64]
    word_names: NDArray[np.int32]

    def entries(self, key: str) -> slice:
        """Where `key_names` and `key_kinds` hold the entries of a key; empty if unknown."""
        number = self.keys.get(key)
        if number is None:
            return slice(0, 0)
        return slice(int(self.key_offsets[number]), int(self.key_offsets[number + 1]))

    def postings(self, word: str) -> NDArray[np.int32]:
        """The names that a folded word is part of, ascending."""
        number = self.words.get(word)
        if number is None:
            return self.word_names[:0]
        return self.word_names[self.word_offsets[number] : self.word_offsets[number + 1]]

    def written(self, names: NDArray[np.int32]) -> list[str]:
        """These names as they are written."""
        if len(names) <= FEW:  # a call of `take` costs as much as some ten values
            return [str(self.names[name].as_py()) for name in names.tolist()]
        values: list[str] = self.names.take(pa.array(names)).to_pylist()
        return values


def fold_keys(forms: Sequence[str]) -> list[str]:
    """The folded marked key of each form, "" for a form of nothing but white space.

    >>> fold_keys(["New  York", " "])
    [' new  york ', '']
    """
    folded = [normalise(form, fold=True)[0] for form in forms]
    keys = iter(marked_keys([form for form in folded if form.strip()]))
    return [next(keys) if form.strip() else "" for form in folded]


def build_segment(
    rows: NameRows,
    *,
    entities: Vocabulary,
    popularity: NDArray[np.float32],
    raised: NDArray[np.int32],
    raised_popularity: NDArray[np.float32],
    variants: bool,
) -> Segment:
    """Index names; with `variants` under their other forms and by their words too."""
    keys, key_names, key_kinds = _keys(rows, variants)
    trie, key_offsets, order = _group(keys)
    words, word_names, n_words = _words(rows) if variants else ([], [], [0] * len(rows.values))
    word_trie, word_offsets, word_order = _group(words)
    return Segment(
        entities=entities,
        popularity=popularity,
        raised=raised,
        raised_popularity=raised_popularity,
        names=strings(rows.values),
        name_entities=rows.entities,
        name_sources=rows.sources,
        name_counts=rows.counts,
        name_words=np.array(n_words, np.uint8),
        keys=trie,
        key_offsets=key_offsets,
        key_names=np.array(key_names, np.int32)[order],
        key_kinds=np.array(key_kinds, np.uint8)[order],
        words=word_trie,
        word_offsets=word_offsets,
        word_names=np.array(word_names, np.int32)[word_order],
    )


def has_key(value: str) -> bool:
    """Whether a name holds anything that a text can be searched for."""
    return bool(normalise(value, fold=True)[0].strip())


def _keys(rows: NameRows, variants: bool) -> tuple[list[str], list[int], list[int]]:
    keys: list[str] = []
    names: list[int] = []
    kinds: list[int] = []
    for start in range(0, len(rows.values), NAMES_PER_CHUNK):
        forms: list[str] = []
        for name, value in enumerate(rows.values[start : start + NAMES_PER_CHUNK], start):
            if not variants:
                forms.append(value)
                names.append(name)
                kinds.append(Kind.EXACT)
                continue
            counted = rows.sources[name] == Source.COUNTED
            for form, kind in name_variants(value):
                if not counted or kind <= Kind.SPELLING:
                    forms.append(form)
                    names.append(name)
                    kinds.append(kind)
        keys.extend(fold_keys(forms))
    if "" in keys:  # a form of soft hyphens, say; no name is one
        kept = [i for i, key in enumerate(keys) if key]
        keys, names = [keys[i] for i in kept], [names[i] for i in kept]
        kinds = [kinds[i] for i in kept]
    return keys, names, kinds


def _words(rows: NameRows) -> tuple[list[str], list[int], list[int]]:
    words: list[str] = []
    names: list[int] = []
    n_words: list[int] = []
    for name, value in enumerate(rows.values):
        is_long = rows.sources[name] != Source.COUNTED and not value.isalnum()
        own = name_words(value) if is_long else []
        if not 2 <= len(own) <= MOST_WORDS:
            own = []
        words.extend(own)
        names.extend([name] * len(own))
        n_words.append(len(own))
    return words, names, n_words


def _group(keys: list[str]) -> tuple[marisa_trie.Trie, NDArray[np.int64], NDArray[np.int64]]:
    """A trie of the distinct keys, CSR offsets by its numbers, and the order of the entries.

    A NUL, which ends a key in a trie, is written as its picture: such a name is found nowhere.
    """
    keys = [key.replace("\x00", "\u2400") if "\x00" in key else key for key in keys]
    trie = marisa_trie.Trie(keys)
    numbers = np.fromiter(map(trie.key_id, keys), np.int64, len(keys))
    counts = np.bincount(numbers, minlength=len(trie))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return trie, offsets, np.argsort(numbers, kind="stable")
