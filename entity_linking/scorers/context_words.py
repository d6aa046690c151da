"""Words of texts with their places, cut as `entity_linking.surfaces` cuts mentions.

Words are case folded; scripts without spaces give one word per character. Punctuation is not a
word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from entity_linking.surfaces import tokens_of

_FUNCTION_WORDS = """
    a about after all also an and any are as at be been before but by can could did do does for
    from had has have he her him his how i if in into is it its may me more most my no not of on
    one or other our out over s she so some such t than that the their them then there these they
    this those through to under up upon us was we were what when where which while who whom whose
    why will with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


@dataclass(frozen=True, eq=False)
class Words:
    """Words in order; `text_of` and `starts` (offset in the text) int64 `[word]`."""

    values: tuple[str, ...]
    text_of: NDArray[np.int64]
    starts: NDArray[np.int64]


def words_of(texts: Sequence[str]) -> Words:
    """The words of many texts in one pass.

    >>> words_of(["Apple's  Straße"]).values
    ('apple', 's', 'strasse')
    """
    tokens = tokens_of(texts)
    kept = np.array([value[0].isalnum() for value in tokens.values], np.bool_)
    text_of = np.repeat(np.arange(len(texts)), np.diff(tokens.limits))
    chosen = tuple(compress(tokens.values, kept.tolist()))
    return Words(chosen, text_of[kept], tokens.starts[kept])
