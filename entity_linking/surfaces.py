"""One form for text and dictionary entries, and the way back to the text's own offsets.

`normalise` makes a form (NFC, twins of signs and letters made plain as `entity_linking.spellings`
says, soft hyphens gone, case folded on request) and says which characters of the text each
character of the form stands for. Folding can lengthen a text (`ß` to `ss`, `ﬁ` to `fi`) and shorten
it (`&amp;` to `&`), so offsets are never assumed equal.

`split_tokens` drops white space and cuts wherever one mention may end and another begin; a mention
is a run of such tokens. `marked_keys` joins them by two spaces, with one before and one after: as a
prefix of another, ` new  york ` breaks no word, and white space round punctuation does not matter
(`U. S.` is `U.S.`).

A word is a run of letters and digits, with the combining marks and joiners that follow them
(after UAX #29, rules WB4 and WB5). Two rules are looser than the standard, as linking needs it:
an apostrophe ends a word (`Apple's`, `l'Inde`, but not `Don't`), and scripts written without spaces
(Han, kana, Thai, Lao, Khmer, Myanmar) and Hangul, to whose names particles are attached, may be cut
between any two characters.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from entity_linking.spellings import (
    SOFT_HYPHEN,
    TATWEEL,
    VOICED,
    folded,
    has_reference,
    has_twin,
    made_plain,
    referenced,
    without_twins,
)

ZERO_WIDTH_JOINER, REPLACEMENT = 0x200D, 0xFFFD
CHARACTERS_PER_BATCH = 2**18
CHARACTERS_REMEMBERED = 4_096
_PLAIN = re.compile(r"[\x00-\x25\x27-\x7f]+(?![^\x00-\x7f])")
"""ASCII of which no character is joined to another, and which begins no character reference."""
_SPACE, _OTHER, _WORD, _UNSPACED, _EXTEND, _SURROGATE = 1, 2, 3, 4, 5, 6
_JOINERS = {SOFT_HYPHEN, 0x200C, ZERO_WIDTH_JOINER, 0x2060}
_ODD = 0xFFFFFFFF  # stands for a character that is folded together with those beside it
_LOWER = 0x20  # makes an ASCII capital small; nothing else becomes an "n" or a "t" by it
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
    if "&" in text and has_reference(text):
        return _normalise_clusters(text, fold)
    if text.isascii():
        form = made_plain(text)
        return (form.lower() if fold else form), None
    form = made_plain(text)
    if fold:
        form = folded(form)
    if (
        len(form) == len(text)
        and chr(SOFT_HYPHEN) not in text
        and unicodedata.is_normalized("NFC", text)
        and "i\u0307" not in text
        and not has_twin(text)
    ):
        return form, None
    return _normalise_clusters(text, fold)


def _normalise_clusters(text: str, fold: bool) -> tuple[str, Origins]:
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    start = 0
    while start < len(text):
        if plain := _PLAIN.match(text, start):
            end = plain.end()
            part = made_plain(plain[0])
            parts.append(part.lower() if fold else part)
            starts.extend(range(start, end))
            ends.extend(range(start + 1, end + 1))
            start = end
            continue
        cluster, end = referenced(text, start) or (text[start], start + 1)
        if end == start + 1:
            while end < len(text) and _continues(text[end]) and not cluster.isspace():
                end += 1
            cluster = text[start:end]
        part = _normalise_cluster(cluster, fold)
        parts.append(part)
        starts.extend([start] * len(part))
        ends.extend([end] * len(part))
        start = end
    return "".join(parts), (starts, ends)


@functools.lru_cache(CHARACTERS_REMEMBERED)
def _normalise_cluster(cluster: str, fold: bool) -> str:
    part = unicodedata.normalize("NFC", made_plain(cluster))
    if has_twin(part):
        part = made_plain(without_twins(part))
    return folded(part) if fold else part.replace("i\u0307", "i")


@functools.lru_cache(CHARACTERS_REMEMBERED)
def _continues(char: str) -> bool:
    """Whether NFC may join `char` to the one before it."""
    code = ord(char)
    is_joined = code in (SOFT_HYPHEN, TATWEEL) or char in VOICED or 0x1160 <= code <= 0x11FF
    return is_joined or unicodedata.category(char)[0] == "M"


class Tokens(NamedTuple):
    """The tokens of many forms: a mention is a run of them.

    `values` in order; `starts` and `ends` int64 `[token]`, where they stand in their form; those of
    form i are `limits[i]` to `limits[i + 1]`, int64 `[form+1]`.
    """

    values: list[str]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    limits: NDArray[np.int64]


class Stretches(NamedTuple):
    """The tokens of many forms as stretches of these forms side by side.

    `codes` are the characters; token i is `begins[i]` to `stops[i]` of them. `starts`, `ends` and
    `limits` are as in `Tokens`.
    """

    codes: NDArray[np.uint32]
    begins: NDArray[np.int64]
    stops: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    limits: NDArray[np.int64]

    def words(self, tokens: slice = slice(None)) -> list[str]:
        """Some of the tokens as strings."""
        begins, stops = self.begins[tokens].tolist(), self.stops[tokens].tolist()
        if not begins:
            return []
        first = begins[0]
        joined = self.codes[first : stops[-1]].tobytes().decode("utf-32-le")
        return [joined[a - first : b - first] for a, b in zip(begins, stops, strict=True)]


def cut_forms(forms: Sequence[str]) -> Stretches:
    """Where the tokens of many forms stand; lone surrogates become U+FFFD.

    >>> cut_forms(["new york", "U.S."]).starts
    array([0, 4, 0, 1, 2, 3])
    """
    return _cut(side_by_side(forms), lengths_of(forms))


def lengths_of(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def side_by_side(texts: Sequence[str]) -> NDArray[np.uint32]:
    """The characters of all texts, with one blank before, between and after them."""
    joined = " ".join(["", *texts, ""]) if texts else " "
    return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")


def _cut(codes: NDArray[np.uint32], lengths: NDArray[np.int64]) -> Stretches:
    """The tokens of forms of these `lengths` that stand side by side in `codes`."""
    offsets = np.cumsum(lengths + 1) - lengths
    classes = _classes(codes)
    is_kept = classes != _SPACE
    legal = _boundaries(codes, classes)
    _join_negations(legal, codes, classes, np.flatnonzero(is_kept), offsets)
    begins = np.flatnonzero(is_kept[1:] & (legal | ~is_kept[:-1])) + 1
    stops = np.flatnonzero(is_kept[:-1] & (legal | ~is_kept[1:])) + 1
    if (classes == _SURROGATE).any():
        codes = np.where(classes == _SURROGATE, np.uint32(REPLACEMENT), codes)
    limits = np.searchsorted(begins, np.append(offsets, len(codes)))
    shift = np.repeat(offsets, np.diff(limits))
    return Stretches(codes, begins, stops, begins - shift, stops - shift, limits)


def split_tokens(forms: Sequence[str]) -> Tokens:
    """The tokens of many forms at once; lone surrogates become U+FFFD.

    >>> split_tokens(["new york", "U.S."]).values
    ['new', 'york', 'U', '.', 'S', '.']
    """
    cut = cut_forms(forms)
    return Tokens(cut.words(), cut.starts, cut.ends, cut.limits)


def cut_texts(texts: Sequence[str]) -> Stretches:
    """Where the folded tokens of many texts stand; `starts` and `ends` in the texts.

    >>> cut_texts(["ﬁrst Café"]).starts
    array([0, 5])
    """
    return cut_codes(texts, side_by_side(texts))


def cut_codes(texts: Sequence[str], codes: NDArray[np.uint32]) -> Stretches:
    """As `cut_texts`, with `codes` the texts `side_by_side`."""
    lengths = lengths_of(texts)
    plain = _folded(codes)
    limits = np.append(0, np.cumsum(lengths + 1))
    places = np.flatnonzero(plain == _ODD)
    ampersands = np.searchsorted(limits, np.flatnonzero(codes == ord("&"))) - 1
    referring = [i for i in np.unique(ampersands).tolist() if has_reference(texts[i])]
    odd = np.union1d(np.searchsorted(limits, places) - 1, np.array(referring, np.int64)).tolist()
    forms = {i: normalise(texts[i], fold=True) for i in odd}
    parts, end = [], 0
    for i, (form, _) in forms.items():
        parts += [plain[end : limits[i] + 1], side_by_side([form])[1:-1]]
        lengths[i], end = len(form), limits[i + 1]
    cut = _cut(np.concatenate([*parts, plain[end:]]) if parts else plain, lengths)
    for i, (_, origins) in forms.items():
        if origins is not None:
            part = slice(*cut.limits[i : i + 2].tolist())
            cut.starts[part] = np.array(origins[0], np.int64)[cut.starts[part]]
            cut.ends[part] = np.array(origins[1], np.int64)[cut.ends[part] - 1]
    return cut


def tokens_of(texts: Sequence[str]) -> Tokens:
    """The folded tokens of many texts, `starts` and `ends` in the texts.

    >>> [column[:2] for column in tokens_of(["ﬁrst Café"])[:2]]
    [['first', 'café'], array([0, 5])]
    """
    cut = cut_texts(texts)
    return Tokens(cut.words(), cut.starts, cut.ends, cut.limits)


def batches(texts: Sequence[str], n_characters: int = CHARACTERS_PER_BATCH) -> Iterator[slice]:
    """Neighbouring texts that are split at once, of `n_characters` and the text that passes them.

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
    words, _, _, limits = split_tokens(forms)
    return [marked_key(words[a:b]) for a, b in pairwise(limits.tolist())]


def marked_key(words: Sequence[str]) -> str:
    """The marked string of a form with these words."""
    return f" {'  '.join(words)} "


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
    """Take back the boundaries in an "n't" at the end of a word; `stands` is not white space."""
    rank = np.searchsorted(stands, np.flatnonzero(codes == ord("'")))
    rank = rank[(rank > 0) & (rank + 1 < len(stands))]
    before, at, after = stands[rank - 1], stands[rank], stands[rank + 1]
    n, t = codes[before] | _LOWER, codes[after] | _LOWER
    joined = (n == ord("n")) & (t == ord("t")) & (classes[after + 1] != _WORD)
    joined &= np.searchsorted(offsets, before, "right") == np.searchsorted(offsets, after, "right")
    legal[before[joined & (before + 1 == at)]] = False
    legal[at[joined & (at + 1 == after)]] = False


@functools.cache
def _class_table() -> NDArray[np.uint8]:
    return np.zeros(0x110000, np.uint8)  # 0 = not looked up yet


@functools.cache
def _fold_table() -> NDArray[np.uint32]:
    return np.zeros(0x110000, np.uint32)  # 0 = not looked up yet


def _folded(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Each character folded as `normalise` does it to any text of such characters, or `_ODD`."""
    table = _fold_table()
    forms = table.take(codes)
    if not forms.all():
        for code in np.unique(codes[forms == 0]).tolist():
            table[code] = _fold(code)
        forms = table.take(codes)
    return forms


def _fold(code: int) -> int:
    char = chr(code)
    form, origins = normalise(char, fold=True)
    is_simple = code and len(form) == 1 and origins is None and not _continues(char)
    return ord(form) if is_simple else _ODD


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
    if not char.isalnum():
        return _OTHER
    return _UNSPACED if any(a <= code <= b for a, b in _UNSPACED_RANGES) else _WORD
