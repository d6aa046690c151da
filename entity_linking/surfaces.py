"""One form for text and dictionary entries, and the way back to the text's own offsets.

`normalise` makes a form (NFC, typographic apostrophes and hyphens made plain, soft hyphens gone,
case folded on request) and says which characters of the text each character of the form stands for.
Folding can lengthen a text (`ß` to `ss`, `İ` to `i` and a dot), so offsets are never assumed equal.

`mark` drops white space and puts two spaces wherever one mention may end and another begin. A
mention is then a plain substring ` new  york `: no match can break a word, neighbours share no
character, and white space round punctuation does not matter (`U. S.` is `U.S.`).

A word is a run of letters, digits and `_`, with the combining marks and joiners that follow them
(after UAX #29, rules WB4 and WB5). Two rules are looser than the standard, as linking needs it:
an apostrophe ends a word (`Apple's`, `l'Inde`, but not `Don't`), and scripts written without spaces
(Han, kana, Thai, Lao, Khmer, Myanmar) and Hangul, to whose names particles are attached, may be cut
between any two characters.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SOFT_HYPHEN, ZERO_WIDTH_JOINER, REPLACEMENT = 0xAD, 0x200D, 0xFFFD
_SAME = {0x2018: "'", 0x2019: "'", 0x2010: "-", 0x2011: "-", SOFT_HYPHEN: None}
_REPLACED = tuple(map(chr, _SAME))
_SPACE, _OTHER, _WORD, _UNSPACED, _EXTEND = 1, 2, 3, 4, 5
_JOINERS = {SOFT_HYPHEN, 0x200C, ZERO_WIDTH_JOINER, 0x2060}
_N, _T = (ord("n"), ord("N")), (ord("t"), ord("T"))
_UNSPACED_RANGES = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1100, 0x11FF), (0x1780, 0x17FF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3040, 0x318F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFAFF), (0xFF66, 0xFFDC),
    (0x1B000, 0x1B16F), (0x20000, 0x323AF),
)  # fmt: skip

Origins = tuple[list[int], list[int]]


def normalise(text: str, *, fold: bool) -> tuple[str, Origins | None]:
    """The form of `text`, and `(starts, ends)` in `text` of each of its characters.

    None in place of the pair means that form and text correspond one to one.

    >>> normalise("Straße", fold=True)[0]
    'strasse'
    """
    if text.isascii():
        return (text.lower() if fold else text), None
    # most texts hold none of these; translating looks every character up
    form = text.translate(_SAME) if any(char in text for char in _REPLACED) else text
    if fold:
        form = form.casefold()
    if (
        len(form) == len(text)
        and chr(SOFT_HYPHEN) not in text
        and unicodedata.is_normalized("NFC", text)
    ):
        return form, None
    return _normalise_clusters(text, fold)


def _normalise_clusters(text: str, fold: bool) -> tuple[str, Origins]:
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and _continues(text[end]) and not text[start].isspace():
            end += 1
        part = unicodedata.normalize("NFC", text[start:end].translate(_SAME))
        part = part.casefold() if fold else part
        parts.append(part)
        starts.extend([start] * len(part))
        ends.extend([end] * len(part))
        start = end
    return "".join(parts), (starts, ends)


def _continues(char: str) -> bool:
    """Whether NFC may join `char` to the one before it."""
    code = ord(char)
    return unicodedata.category(char)[0] == "M" or 0x1160 <= code <= 0x11FF or code == SOFT_HYPHEN


@dataclass(frozen=True, eq=False)
class Marked:
    """Forms as one string with two spaces at every legal boundary, three between forms.

    `rank[i]` is the place of character i of `haystack` among the kept characters (-1 for a mark);
    `form_of` and `index_in_form` say where each kept character stands.
    """

    haystack: str
    rank: NDArray[np.int64]
    form_of: NDArray[np.int64]
    index_in_form: NDArray[np.int64]


def mark(forms: Sequence[str]) -> Marked:
    """Mark the boundaries of many forms at once; lone surrogates become U+FFFD."""
    lengths = np.fromiter(map(len, forms), np.int64, len(forms))
    offsets = np.cumsum(lengths) - lengths
    encoded = "".join(forms).encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(encoded, "<u4")
    surrogate = (codes >= 0xD800) & (codes < 0xE000)
    if surrogate.any():
        codes = np.where(surrogate, REPLACEMENT, codes).astype("<u4")
    classes = _classes(codes)
    kept = np.flatnonzero(classes != _SPACE)
    codes, classes = codes[kept], classes[kept]
    form_of = np.repeat(np.arange(len(forms)), lengths)[kept]

    n_marks = np.ones(len(kept), np.int64)  # before each kept character
    if len(kept):
        next_form = form_of[1:] != form_of[:-1]
        apart = next_form | (np.diff(kept) > 1)
        n_marks[1:] = 2 * (apart | _boundaries(codes, classes, apart)) + 1 * next_form
    place = np.arange(len(kept)) + np.cumsum(n_marks)
    n_out = int(place[-1]) + 2 if len(kept) else 1
    marked = np.full(n_out, ord(" "), "<u4")
    marked[place] = codes
    rank = np.full(n_out, -1, np.int64)
    rank[place] = np.arange(len(kept))
    return Marked(marked.tobytes().decode("utf-32-le"), rank, form_of, kept - offsets[form_of])


def marked_keys(forms: Sequence[str]) -> list[str]:
    """The marked string of each form; every form holds something else than white space.

    >>> marked_keys(["new york", "U.S."])
    [' new  york ', ' U  .  S  . ']
    """
    return [f" {key} " for key in mark(forms).haystack[1:-1].split("   ")] if forms else []


def _boundaries(
    codes: NDArray[np.uint32], classes: NDArray[np.uint8], apart: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether a mention may end at each character and another begin at the next."""
    stands = classes != _EXTEND
    stands[0] = True
    stands[1:] |= apart
    base = np.maximum.accumulate(np.where(stands, np.arange(len(classes)), 0))
    left, right = classes[base][:-1], classes[1:]
    inside_word = (left == _WORD) & (right == _WORD)
    legal: NDArray[np.bool_] = ~inside_word & (right != _EXTEND) & (codes[:-1] != ZERO_WIDTH_JOINER)
    apostrophes = np.flatnonzero(codes[1:-1] == ord("'"))  # the character before each one
    if not len(apostrophes):
        return legal
    for i in apostrophes[np.isin(codes[apostrophes], _N) & np.isin(codes[apostrophes + 2], _T)]:
        if i + 3 == len(codes) or apart[i + 2] or classes[i + 3] != _WORD:
            legal[i : i + 2] &= apart[i : i + 2]
    return legal


@functools.cache
def _class_table() -> NDArray[np.uint8]:
    return np.zeros(0x110000, np.uint8)  # 0 = not looked up yet


def _classes(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    table = _class_table()
    classes = table[codes]
    if not classes.all():
        for code in np.unique(codes[classes == 0]).tolist():
            table[code] = _class(code)
        classes = table[codes]
    return classes


def _class(code: int) -> int:
    char = chr(code)
    if char.isspace():
        return _SPACE
    is_modifier = 0x1F3FB <= code <= 0x1F3FF  # skin tones
    if unicodedata.category(char)[0] == "M" or code in _JOINERS or is_modifier:
        return _EXTEND
    if not char.isalnum() and char != "_":
        return _OTHER
    return _UNSPACED if any(a <= code <= b for a, b in _UNSPACED_RANGES) else _WORD
