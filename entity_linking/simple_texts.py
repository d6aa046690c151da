"""The words of one text by a regular expression, where all its characters are simple ones.

`entity_linking.surfaces.cut_texts` cuts every text, many at once by arrays, whose set-up takes
longer than a sentence. A text is simple where each of its characters is folded by itself into
characters of its own kind, so that the words can be cut before they are folded: no marks and
joiners, no character references, no signs that stand for a blank.
"""

from __future__ import annotations

import re
from itertools import accumulate

from entity_linking.spellings import has_reference
from entity_linking.surfaces import normalise

SPACED = (
    "\x00-\x5e\x61-\xac\xb5-\u0148\u014a-\u01ef\u01f1-\u02b8\u02c0-\u02ff\u0370-\u038f"
    "\u0391-\u03af\u03b1-\u0482\u048a-\u0559\u055b-\u058f\u05d0-\u05ea\u0620-\u063f\u0641-\u064a"
    "\u0671-\u06d3\u1e00-\u1e95\u1e9b-\u1f4f\u1f57-\u1fb5\u200e-\u2017\u2019\u201a\u201c-\u2031\u2033-\u205f"
    "\u20a0-\u20bf\u2100-\u2114\u2116-\u218f"
)
"""Letters, figures, signs and white space that are folded one by one into their own kind."""
UNSPACED = "\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
"""Such letters of scripts without spaces, each of which is a word: kana, Han and Hangul."""
SIGNS = "\u3000-\u3004\u3008-\u3020\u30fb\uff01-\uff06\uff08-\uff0f"
_NEGATED = rf"(?:(?<=[nN])['\u2019][tT](?![^\W_{UNSPACED}]))?"
_SPACED_TEXT, _SPACED_WORD = re.compile(f"[{SPACED}]*"), re.compile(rf"([^\W_]+{_NEGATED}|\S)")
_MIXED_TEXT = re.compile(f"[{SPACED}{UNSPACED}{SIGNS}]*")
_MIXED_WORD = re.compile(rf"([^\W_{UNSPACED}]+{_NEGATED}|\S)")
_MARKS = "\u0300-\u036f"
_MARKED_TEXT = re.compile(f"[{SPACED}{UNSPACED}{SIGNS}{_MARKS}]*")
_MARKED_WORD = re.compile(
    rf"([^\W_{UNSPACED}](?:[{_MARKS}]*[^\W_{UNSPACED}])*[{_MARKS}]*|\S[{_MARKS}]*)"
)
_NEGATION = re.compile(r"[nN]\s*['\u2019]\s*[tT]")
_SPACED_NEGATION = re.compile(r"[nN]\s+['\u2019]\s*[tT]|[nN]['\u2019]\s+[tT]")
"""The parts of an "n't" that are cut apart, and belong together."""


def cut(text: str) -> list[str] | None:
    """White space and words of a text in turn, white space first; None for texts of other kinds.

    The words are those of `entity_linking.surfaces.cut_texts`, here as they are written.

    >>> cut("In  New-York"), cut("e\u0301")
    (['', 'In', '  ', 'New', '', '-', '', 'York', ''], None)
    """
    if "&" in text and has_reference(text):
        return None
    if ("'" in text or "\u2019" in text) and _SPACED_NEGATION.search(text):
        return None
    is_plain = text.isascii() and "_" not in text and "`" not in text
    if is_plain or _SPACED_TEXT.fullmatch(text):
        return _SPACED_WORD.split(text)
    return _MIXED_WORD.split(text) if _MIXED_TEXT.fullmatch(text) else None


def cut_folded(text: str) -> tuple[list[str], list[int]] | None:
    """The words of a text that is simple once it is folded, and where each begins and ends.

    Words are as they are written, begins and ends in turn. None for other texts.

    >>> cut_folded("a e\u0301t")
    (['a', 'ét'], [0, 1, 2, 5])
    """
    form, origins = normalise(text, fold=True)
    parts = cut(form)
    if parts is None:
        if _MARKED_TEXT.fullmatch(form) is None or _NEGATION.search(form) or "&" in form:
            return None
        parts = _MARKED_WORD.split(form)  # what is left are marks that no letter has with them
    limits = list(accumulate(map(len, parts)))[:-1]
    if origins is not None:
        limits[::2] = [origins[0][start] for start in limits[::2]]
        limits[1::2] = [origins[1][end - 1] for end in limits[1::2]]
        if limits != sorted(limits):  # a character that is folded into two words
            return None
    words = [text[start:end] for start, end in zip(limits[::2], limits[1::2], strict=True)]
    return words, limits
