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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

SOFT_HYPHEN, ZERO_WIDTH_JOINER, REPLACEMENT = 0xAD, 0x200D, 0xFFFD
_SAME = (("\u2018", "'"), ("\u2019", "'"), ("\u2010", "-"), ("\u2011", "-"), ("\u00ad", ""))
CHARACTERS_PER_BATCH = 2**18
_SPACE, _OTHER, _WORD, _UNSPACED, _EXTEND, _SURROGATE = 1, 2, 3, 4, 5, 6
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
    form = _made_plain(text)
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
        part = unicodedata.normalize("NFC", _made_plain(text[start:end]))
        part = part.casefold() if fold else part
        parts.append(part)
        starts.extend([start] * len(part))
        ends.extend([end] * len(part))
        start = end
    return "".join(parts), (starts, ends)


def _made_plain(text: str) -> str:
    for sign, plain in _SAME:  # faster than to look every character up
        text = text.replace(sign, plain)
    return text


def _continues(char: str) -> bool:
    """Whether NFC may join `char` to the one before it."""
    code = ord(char)
    return unicodedata.category(char)[0] == "M" or 0x1160 <= code <= 0x11FF or code == SOFT_HYPHEN


@dataclass(frozen=True, eq=False)
class Marked:
    """Forms as one string with two spaces at every legal boundary, three between forms.

    `places [character]` is where each character of the forms, one white space round each form,
    stands in `haystack` (white space on a mark); `offsets [form]` is where each form begins there.
    """

    haystack: str
    places: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """Which character stands at each place of `haystack`; nothing is said of marks."""
        sources = np.zeros(len(self.haystack), np.int32)
        sources[self.places] = np.arange(len(self.places), dtype=np.int32)
        return sources

    def begins(self) -> NDArray[np.int64]:
        """Where the stretches without marks begin in `haystack`."""
        is_mark = np.frombuffer(self.haystack.encode("utf-32-le"), "<u4") == ord(" ")
        return np.flatnonzero(is_mark[:-1] & ~is_mark[1:]) + 1

    def locate(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Form, start and end in it of parts of `haystack` that begin and end without a mark."""
        first, last = self.sources[starts], self.sources[ends - 1]
        forms = np.searchsorted(self.offsets, first, side="right") - 1
        offsets = self.offsets[forms]
        return forms, first - offsets, last - offsets + 1


def mark(forms: Sequence[str]) -> Marked:
    """Mark the boundaries of many forms at once; lone surrogates become U+FFFD."""
    lengths = np.fromiter(map(len, forms), np.int64, len(forms))
    offsets = np.cumsum(lengths + 1) - lengths
    joined = " ".join(["", *forms, ""]) if forms else " "
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
    classes = _classes(codes)
    is_space = classes == _SPACE
    kept = ~is_space
    # white space is the two marks unless it follows another, other characters follow theirs
    widths = np.empty(len(codes), np.uint8)
    stands = np.flatnonzero(kept)
    legal = _boundaries(codes, classes)
    _join_negations(legal, codes, classes, stands, offsets)
    widths[1:] = 2 * (kept[:-1] & legal).view(np.uint8) + kept[1:]
    ends = np.concatenate([[0], stands + 1])
    outside = ends[np.searchsorted(stands, np.append(offsets - 1, len(codes) - 1))]
    widths[outside] = 3
    widths[0] = widths[outside[-1]] = 1
    places = np.cumsum(widths, dtype=np.int32)
    places -= 1
    marked = np.full(int(places[-1]) + 1, ord(" "), "<u4")
    marked[places] = codes
    marked[places[np.flatnonzero(is_space & (codes != ord(" ")))]] = ord(" ")
    marked[places[np.flatnonzero(classes == _SURROGATE)]] = REPLACEMENT
    return Marked(marked.tobytes().decode("utf-32-le"), places, offsets)


def batches(texts: Sequence[str], n_characters: int = CHARACTERS_PER_BATCH) -> Iterator[slice]:
    """Neighbouring texts that are marked at once, of `n_characters` and the text that passes them.

    >>> list(batches(["a", "b" * CHARACTERS_PER_BATCH, "c"]))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    start = n = 0
    for end, length in enumerate(map(len, texts), 1):
        n += length + 1
        if n > n_characters or end == len(texts):
            yield slice(start, end)
            start, n = end, 0


def marked_keys(forms: Sequence[str]) -> list[str]:
    """The marked string of each form; every form holds something else than white space.

    >>> marked_keys(["new york", "U.S."])
    [' new  york ', ' U  .  S  . ']
    """
    return [f" {key} " for key in mark(forms).haystack[1:-1].split("   ")] if forms else []


def _boundaries(codes: NDArray[np.uint32], classes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether a mention may end at each character and another begin at the next, or white space."""
    is_word = classes == _WORD
    legal: NDArray[np.bool_] = ~(is_word[:-1] & is_word[1:])
    extends = np.flatnonzero(classes == _EXTEND)
    if len(extends):  # they belong to the character before their run, unless that is white space
        follows = np.diff(extends, prepend=-1) == 1
        base = np.maximum.accumulate(np.where(follows, 0, extends)) - 1
        attached = (is_word[base] & is_word[extends + 1]) | (codes[extends] == ZERO_WIDTH_JOINER)
        legal[extends] = ~attached | (classes[extends + 1] == _SPACE)
        legal[extends - 1] = False
    return legal


def _join_negations(
    legal: NDArray[np.bool_],
    codes: NDArray[np.uint32],
    classes: NDArray[np.uint8],
    stands: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> None:
    """Take back the boundaries in an "n't" at the end of a word; `stands` is no white space."""
    rank = np.searchsorted(stands, np.flatnonzero(codes == ord("'")))
    rank = rank[(rank > 0) & (rank + 1 < len(stands))]
    before, at, after = stands[rank - 1], stands[rank], stands[rank + 1]
    joined = np.isin(codes[before], _N) & np.isin(codes[after], _T) & (classes[after + 1] != _WORD)
    joined &= np.searchsorted(offsets, before, "right") == np.searchsorted(offsets, after, "right")
    legal[before[joined & (before + 1 == at)]] = False
    legal[at[joined & (at + 1 == after)]] = False


@functools.cache
def _class_table() -> NDArray[np.uint8]:
    return np.zeros(0x110000, np.uint8)  # 0 = not looked up yet


def _classes(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    table = _class_table()
    classes = table.take(codes)
    if not classes.all():
        for code in np.unique(codes[classes == 0]).tolist():
            table[code] = _class(code)
        classes = table.take(codes)
    return classes


def _class(code: int) -> int:
    char = chr(code)
    if char.isspace():
        return _SPACE
    if 0xD800 <= code < 0xE000:
        return _SURROGATE  # a sign of its own, as U+FFFD is
    is_modifier = 0x1F3FB <= code <= 0x1F3FF  # skin tones
    if unicodedata.category(char)[0] == "M" or code in _JOINERS or is_modifier:
        return _EXTEND
    if not char.isalnum() and char != "_":
        return _OTHER
    return _UNSPACED if any(a <= code <= b for a, b in _UNSPACED_RANGES) else _WORD
