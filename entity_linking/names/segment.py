"""`Segment`: names of entities and the keys that lead to them, as flat arrays and two tries.

    entities          identifiers, sorted, of the entities that no earlier segment has
    popularity        float32 [entity]
    raised            int32 [raised] entities of earlier segments, by their number over all segments
    raised_popularity float32 [raised], what they are here
    names             [name] as written            name_entities int32, number over all segments
    name_sources      uint8, `Source`              name_counts   float32, how often seen
    name_words        uint8, distinct informative words, 0 = not looked up by its words
    keys              trie of folded marked keys (`entity_linking.surfaces`)
    key_offsets       int64 [key+1]                key_names int32, key_kinds uint8 [entry]
    key_table         uint64 [cell], what keys begin with (`entity_linking.names.keys`)
    words             trie of folded words
    word_offsets      int64 [word+1]               word_names int32 [posting], ascending in a word

A saved segment is a folder with a file for each, memory-mapped when opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import marisa_trie
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entity_linking.names.keys import key_table
from entity_linking.names.plain import (
    plain_acronyms,
    plain_keys,
    plain_names,
    plain_plurals,
    plain_words,
)
from entity_linking.names.rules.variants import Kind, name_variants, name_words
from entity_linking.simple_texts import cut
from entity_linking.surfaces import marked_key, marked_keys, normalise
from kg_loaders.disk.arrow import mask_array, numbers_array, numpy_of
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
    "key_table": "<u8",
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

    values: pa.LargeStringArray
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
    key_table: NDArray[np.uint64]
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
        values: list[str] = self.names.take(numbers_array(names)).to_pylist()
        return values


def fold_keys(forms: Sequence[str]) -> list[str]:
    """The folded marked key of each form, "" for a form of nothing but white space.

    >>> fold_keys(["New  York", " "])
    [' new  york ', '']
    """
    folded = [normalise(form, fold=True)[0] for form in forms]
    if len(folded) <= FEW:
        few = [cut(form) for form in folded]
        if None not in few:
            return [marked_key(parts[1::2]) if len(parts) > 1 else "" for parts in few if parts]
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
) -> tuple[Segment, int]:
    """Index names; with `variants` under their other forms and by their words too.

    The second value is the length of the longest key, in characters.
    """
    is_plain = plain_names(rows.values)
    keys, entries = _keys(rows, is_plain, variants)
    trie, key_offsets, order, distinct = _group(keys, entries)
    n_words = np.zeros(len(rows.values), np.uint8)
    words, postings = strings([]), _Entries.of([], [])
    if variants:
        words, postings = _words(rows, is_plain)
        n_words += np.bincount(postings.names, minlength=len(n_words)).astype(np.uint8)
    word_trie, word_offsets, word_order, _ = _group(words, postings)
    longest = pc.max(pc.utf8_length(keys)).as_py() or 0
    segment = Segment(
        entities=entities,
        popularity=popularity,
        raised=raised,
        raised_popularity=raised_popularity,
        names=rows.values,
        name_entities=rows.entities,
        name_sources=rows.sources,
        name_counts=rows.counts,
        name_words=n_words,
        keys=trie,
        key_offsets=key_offsets,
        key_names=entries.names[order],
        key_kinds=entries.kinds[order],
        key_table=key_table(distinct),
        words=word_trie,
        word_offsets=word_offsets,
        word_names=postings.names[word_order],
    )
    return segment, longest


def has_key(value: str) -> bool:
    """Whether a name holds anything that a text can be searched for."""
    return bool(normalise(value, fold=True)[0].strip())


@dataclass(frozen=True, slots=True)
class _Entries:
    """What keys lead to: `names [entry]` and how each key comes from its name."""

    names: NDArray[np.int32]
    kinds: NDArray[np.uint8]

    @classmethod
    def of(cls, names: Sequence[int], kinds: Sequence[int]) -> _Entries:
        return cls(np.array(names, np.int32), np.array(kinds, np.uint8))


def _joined(parts: Sequence[tuple[pa.LargeStringArray, _Entries]]) -> tuple[Any, _Entries]:
    """Keys and entries of several parts, by name; what a part says of one name stays in order."""
    keys = pa.concat_arrays([keys for keys, _ in parts])
    names = np.concatenate([entries.names for _, entries in parts])
    kinds = np.concatenate([entries.kinds for _, entries in parts])
    order = np.argsort(names, kind="stable")
    return keys.take(numbers_array(order)), _Entries(names[order], kinds[order])


def _keys(
    rows: NameRows, is_plain: NDArray[np.bool_], variants: bool
) -> tuple[pa.LargeStringArray, _Entries]:
    plain = np.flatnonzero(is_plain)
    names = rows.values.take(numbers_array(plain))
    parts = [(plain_keys(names), _Entries(plain.astype(np.int32), _all(Kind.EXACT, len(plain))))]
    if variants:
        uncounted = np.flatnonzero(rows.sources[plain] != Source.COUNTED)
        keys, places = plain_acronyms(names.take(numbers_array(uncounted)))
        owners = plain[uncounted[places]].astype(np.int32)
        parts.append((keys, _Entries(owners, _all(Kind.ACRONYM, len(owners)))))
        keys, places = plain_plurals(names)
        owners = plain[places].astype(np.int32)
        parts.append((keys, _Entries(owners, _all(Kind.SPELLING, len(owners)))))
    others = np.flatnonzero(~is_plain)
    for start in range(0, len(others), NAMES_PER_CHUNK):
        chosen = others[start : start + NAMES_PER_CHUNK]
        parts.append(_keys_one_by_one(rows, chosen, variants))
    return _joined(parts)


def _all(kind: Kind, n: int) -> NDArray[np.uint8]:
    return np.full(n, kind, np.uint8)


def _keys_one_by_one(
    rows: NameRows, chosen: NDArray[np.int64], variants: bool
) -> tuple[pa.LargeStringArray, _Entries]:
    forms: list[str] = []
    names: list[int] = []
    kinds: list[int] = []
    values = rows.values.take(numbers_array(chosen)).to_pylist()
    sources = rows.sources[chosen].tolist()
    for name, value, source in zip(chosen.tolist(), values, sources, strict=True):
        if not variants:
            forms.append(value)
            names.append(name)
            kinds.append(Kind.EXACT)
            continue
        for form, kind in name_variants(value):
            if source != Source.COUNTED or kind <= Kind.SPELLING:
                forms.append(form)
                names.append(name)
                kinds.append(kind)
    keys = fold_keys(forms)
    if "" in keys:  # a form of soft hyphens, say; no name is one
        kept = [i for i, key in enumerate(keys) if key]
        keys, names = [keys[i] for i in kept], [names[i] for i in kept]
        kinds = [kinds[i] for i in kept]
    return strings(keys), _Entries.of(names, kinds)


def _words(rows: NameRows, is_plain: NDArray[np.bool_]) -> tuple[pa.LargeStringArray, _Entries]:
    """The words that names of several may be looked up by; a name of too many has none."""
    uncounted = rows.sources != Source.COUNTED
    plain = np.flatnonzero(is_plain & uncounted)
    words, places = plain_words(rows.values.take(numbers_array(plain)))
    n_each = np.bincount(places, minlength=len(plain))
    kept = (n_each[places] >= 2) & (n_each[places] <= MOST_WORDS)
    owners = plain[places[kept]].astype(np.int32)
    parts = [(words.filter(mask_array(kept)), _Entries(owners, _all(Kind.EXACT, len(owners))))]
    others = np.flatnonzero(~is_plain & uncounted)
    for start in range(0, len(others), NAMES_PER_CHUNK):
        chosen = others[start : start + NAMES_PER_CHUNK]
        parts.append(_words_one_by_one(rows, chosen))
    return _joined(parts)


def _words_one_by_one(
    rows: NameRows, chosen: NDArray[np.int64]
) -> tuple[pa.LargeStringArray, _Entries]:
    words: list[str] = []
    names: list[int] = []
    values = rows.values.take(numbers_array(chosen)).to_pylist()
    for name, value in zip(chosen.tolist(), values, strict=True):
        words_of = [] if value.isalnum() else name_words(value)
        if 2 <= len(words_of) <= MOST_WORDS:
            words.extend(words_of)
            names.extend([name] * len(words_of))
    return strings(words), _Entries.of(names, [Kind.EXACT] * len(names))


def _group(
    keys: pa.LargeStringArray, entries: _Entries
) -> tuple[marisa_trie.Trie, NDArray[np.int64], NDArray[np.int64], pa.LargeStringArray]:
    """A trie of the distinct keys, CSR offsets by its numbers, the order of the entries; the keys.

    A NUL, which ends a key in a trie, is written as its picture: such a name is found nowhere.
    """
    encoded = pc.replace_substring(keys, "\x00", "\u2400").dictionary_encode()
    codes, distinct = numpy_of(encoded.indices).astype(np.int64), encoded.dictionary
    counts = np.bincount(codes, minlength=len(distinct))
    trie = marisa_trie.Trie(_each(distinct), weights=counts.astype(float).tolist())
    numbers = np.fromiter(map(trie.key_id, _each(distinct)), np.int64, len(distinct))
    sizes = np.zeros(len(trie), np.int64)
    sizes[numbers] = counts
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return trie, offsets, np.argsort(numbers[codes], kind="stable"), distinct


def _each(values: pa.LargeStringArray) -> Iterator[str]:
    for start in range(0, len(values), NAMES_PER_CHUNK):
        yield from values[start : start + NAMES_PER_CHUNK].to_pylist()
