"""Keys and words of plain names, many at once; the same as `rules.variants` finds one by one.

A name is plain that is ASCII words of letters and digits with one blank between, has no article at
its start, no legal form at its end, no number word, no two letters that stand alone side by side,
no single letter before a word at its start, no connector among words in lower case, and no Greek
letter's name at its end. Such a name has no form but itself, its acronym and its plural.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entity_linking.names.rules.spelt import SMALL_LETTERS
from entity_linking.names.rules.variants import LONGEST_ACRONYM_WORDS
from entity_linking.names.rules.words import ARTICLES, CONNECTORS, LEGAL_SUFFIXES, NUMBERS
from kg_loaders.disk.arrow import numbers_array, numpy_of, string_scalar, strings_array


def _any_of(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(words))})"


_PLAIN = "^[A-Za-z0-9]+(?: [A-Za-z0-9]+)*$"
_ODD = "|".join(
    (
        f"(?i:^{_any_of(ARTICLES)} )",
        f"(?i: {_any_of(LEGAL_SUFFIXES)}$)",
        f"(?i:(?:^| ){_any_of(NUMBERS)}(?: |$))",
        "(?:^| )[A-Za-z] [A-Za-z](?: |$)",
        f"(?:^| ){_any_of(CONNECTORS)}(?: |$)",
        "^[A-Za-z] [A-Za-z]",
        f"[A-Za-z0-9] {_any_of(SMALL_LETTERS)}$",
    )
)
_LOWER_WORD = "(?:^| )[a-z0-9]"
_COMMON_NOUN = "(?:^| )[A-Z0-9]+ (?:.* )?[a-z]+(?:[a-rt-z]|us|ss|sis)$"
_PLURALS = (
    ("([^aeiou])y$", r"\1ies"),
    ("sis$", "ses"),
    ("(ch|sh|x|z|us|ss)$", r"\1es"),
    ("([a-rt-z])$", r"\1s"),
)
"""Endings of plurals; those before the last end with an s, which the last leaves."""
_AFTER_INITIAL = "([A-Za-z0-9])[A-Za-z0-9]* ?"


def plain_names(names: pa.LargeStringArray) -> NDArray[np.bool_]:
    """Return which of `names` are plain, bool `[name]`.

    >>> plain_names(pa.array(["New York", "The Who", "Art of War", "Acme Inc", "Ba'ath"]))
    array([ True, False, False, False, False])
    """
    plain = numpy_of(pc.match_substring_regex(names, _PLAIN))
    odd = numpy_of(pc.match_substring_regex(names, _ODD))
    return np.asarray(plain & ~odd)


def plain_keys(names: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return the folded marked key of each plain name.

    >>> plain_keys(pa.array(["New York"], pa.large_string())).to_pylist()
    [' new  york ']
    """
    words = pc.replace_substring(pc.ascii_lower(names), " ", "  ")
    blank, nothing = string_scalar(" "), string_scalar("")
    return pc.binary_join_element_wise(blank, words, blank, nothing)


def plain_acronyms(names: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Return the keys of the acronyms that plain names have, and the places of these names.

    >>> plain_acronyms(pa.array(["World Health Organization", "Paris"], pa.large_string()))[1]
    array([0])
    """
    n_blanks = numpy_of(pc.count_substring(names, " "))
    lower = numpy_of(pc.match_substring_regex(names, _LOWER_WORD))
    places = np.flatnonzero((n_blanks > 0) & (n_blanks < LONGEST_ACRONYM_WORDS) & ~lower)
    initials = pc.replace_substring_regex(names.take(numbers_array(places)), _AFTER_INITIAL, r"\1")
    return plain_keys(initials), places


def plain_plurals(names: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Return the keys of the plurals that plain names have, and the places of these names.

    >>> plain_plurals(pa.array(["Paris", "DNA library"], pa.large_string()))[0].to_pylist()
    [' dna  libraries ']
    """
    places = np.flatnonzero(numpy_of(pc.match_substring_regex(names, _COMMON_NOUN)))
    plural = names.take(numbers_array(places))
    for pattern, ending in _PLURALS:
        plural = pc.replace_substring_regex(plural, pattern, ending)
    return plain_keys(plural), places


def plain_words(names: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Return the informative words of plain names, folded, and the place of the name of each.

    A word that stands twice in a name comes once; connectors and legal forms are left out.
    """
    split = pc.split_pattern(pc.ascii_lower(names), " ")
    words = split.flatten().dictionary_encode()
    owners = numpy_of(pc.list_parent_indices(split)).astype(np.int64)
    codes = numpy_of(words.indices).astype(np.int64)
    silent = strings_array(sorted(CONNECTORS | LEGAL_SUFFIXES))
    is_silent = numpy_of(pc.is_in(words.dictionary, silent))
    kept = ~is_silent[codes]
    pairs = np.unique(owners[kept] * max(len(words.dictionary), 1) + codes[kept])
    owners, codes = np.divmod(pairs, max(len(words.dictionary), 1))
    return words.dictionary.take(numbers_array(codes)), owners
