"""Windows of a text that is longer than a model reads: overlapping, equally spaced, all as long.

Each word piece belongs to one window, that in whose middle it is nearest: its state, tag and share
in a mean are read there. A window has the links whose mentions lie in it as a whole.

Axis legend: word (word pieces), window, link.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from entity_linking.alignment import pieces_of_all
from entity_linking.mentions import LinkedText, Mention
from kept.graphs.cuts import UNCUT
from kept.graphs.words import Words, encode_words

Long = Literal["windows", "cut"]
"""What is done with a text that is too long: read in windows, or cut after its first pieces."""
LONG: tuple[Long, ...] = get_args(Long)
OVERLAP = 4
"""Two neighbouring windows share at least one piece in so many."""


@dataclass(frozen=True, eq=False)
class TextWindow:
    """One window: its pieces, special ones too, and the characters that belong to it.

    `words` have the character positions of the whole text. `start` and `end`: what begins at these
    characters is read here; the windows of a text share out all of its characters.
    """

    words: Words
    start: int
    end: int

    def owns(self, span: Mention | tuple[int, int]) -> bool:
        """Return whether what has this span is read in this window."""
        start = span.start if isinstance(span, Mention) else span[0]
        return self.start <= start < self.end

    def text(self, linked: LinkedText) -> LinkedText:
        """Return the text with NIL for each link whose mention does not lie in this window.

        Links keep their numbers.
        """
        links = tuple(
            link
            if self.holds(linked.text, link.mention)
            else dataclasses.replace(link, candidates=(), entity=None)
            for link in linked.links
        )
        return dataclasses.replace(linked, links=links)

    def holds(self, text: str, mention: Mention) -> bool:
        """Return whether each letter of a mention is in a piece of this window."""
        starts, ends = self.words.spans.T
        pieces = self.words.spans[(starts >= 0) & (starts < mention.end) & (ends > mention.start)]
        if not len(pieces):
            return False
        before = text[mention.start : max(int(pieces[:, 0].min()), mention.start)]
        after = text[int(pieces[:, 1].max()) : mention.end]
        return not (before + after).strip()


def windows_of(words: Words, *, max_words: int, pair_start: int | None = None) -> list[TextWindow]:
    """Return the windows of a text's pieces, of at most `max_words` pieces each.

    `words` are all pieces of the text. One window holds everything where there is room. Special
    pieces are in each. Of a pair of texts the shorter one is in each window, and windows go over
    the longer one; no window is returned where the shorter one takes more than half of the room.
    """
    if len(words.ids) <= max_words:
        return [TextWindow(words, 0, UNCUT)]
    starts = words.spans[:, 0]
    moving = np.flatnonzero(starts >= 0)
    if pair_start is not None:
        parts = [moving[starts[moving] < pair_start], moving[starts[moving] >= pair_start]]
        moving = max(parts, key=len)
    fixed = np.setdiff1d(np.arange(len(starts)), moving)
    room = max_words - len(fixed)
    n_special = int((starts < 0).sum())
    if room < 1 or len(fixed) - n_special > (max_words - n_special) // 2:
        return []
    step = max(room - room // OVERLAP, 1)
    n_windows = 1 + -(-(len(moving) - room) // step)
    begins = np.linspace(0, len(moving) - room, n_windows).round().astype(np.int64)
    bounds = [0, *_borders(words, moving, begins, room), UNCUT]
    return [
        TextWindow(
            words[np.sort(np.r_[fixed, moving[begin : begin + room]])], bounds[i], bounds[i + 1]
        )
        for i, begin in enumerate(begins.tolist())
    ]


def _borders(
    words: Words, moving: NDArray[np.int64], begins: NDArray[np.int64], room: int
) -> list[int]:
    """Return the character between each two windows: the middle of the pieces that they share."""
    middles = (begins[1:] + begins[:-1] + room) // 2
    return [int(start) for start in words.spans[moving[middles], 0]]


def around_targets(words: Words, targets: Sequence[Mention], *, max_words: int) -> Words | None:
    """Return the window of at most `max_words` pieces of a text that has its targets in the middle.

    `words` are those of the whole text. The special ones stay. Where the targets do not fit, their
    first pieces are enough, at the window's start. None where these are too far apart, or a target
    has no piece.
    """
    bounds = np.array([(target.start, target.end) for target in targets], np.int32)
    pieces = pieces_of_all(words.spans, bounds.reshape(-1, 2))
    is_special = words.spans[:, 0] < 0
    special, text = np.flatnonzero(is_special), np.flatnonzero(~is_special)
    room = max_words - len(special)
    if not len(pieces) or (pieces[:, 0] >= pieces[:, 1]).any():
        return None
    first, stop = np.searchsorted(text, [pieces[:, 0].min(), pieces[:, 1].max()]).tolist()
    if stop - first > room:
        stop = int(np.searchsorted(text, pieces[:, 0].max())) + 1
    if stop - first > room:
        return None
    first = min(max(first - (room - (stop - first)) // 2, 0), max(len(text) - room, 0))
    return words[np.sort(np.r_[special, text[first : first + room]])]


def parts_of(text: LinkedText, tokenizer: Any, *, max_words: int) -> list[LinkedText]:
    """Return a text as parts that are read whole, one after another, each with its own links.

    Parts are about as long as each other and share no character. They begin after white space and
    not inside a mention, where there is such a place in the half before. A text that fits, and a
    pair, is returned as it is.
    """
    (words,) = encode_words([text.text], tokenizer, max_words=UNCUT)
    spans = words.spans[words.spans[:, 0] >= 0]
    room = max(max_words - (len(words.ids) - len(spans)), 1)
    if text.pair_start is not None or len(spans) <= room:
        return [text]
    size = -(-len(spans) // -(-len(spans) // room))
    begins = [0]
    while begins[-1] + size < len(spans):
        begins.append(_place_to_part(text, spans, begins[-1], size))
    borders = [0, *spans[begins[1:], 0].tolist(), len(text.text)]
    parts = [_part(text, *pair) for pair in pairwise(borders)]
    if len(parts) == 1:
        return parts
    return [small for part in parts for small in parts_of(part, tokenizer, max_words=max_words)]


def _place_to_part(text: LinkedText, spans: NDArray[np.integer], begin: int, size: int) -> int:
    """Return the last piece in the second half of the `size` after `begin` that begins a word."""
    inside = [link.mention for link in text.links]
    for number in range(begin + size, begin + size // 2, -1):
        start = int(spans[number, 0])
        is_word = text.text[start - 1].isspace() or text.text[start].isspace()
        if is_word and not any(m.start < start < m.end for m in inside):
            return number
    return begin + size


def _part(text: LinkedText, start: int, end: int) -> LinkedText:
    """Return the characters from `start` to `end` with the links that lie in them."""
    links = tuple(
        dataclasses.replace(link, mention=Mention(m.start - start, m.end - start))
        for link in text.links
        for m in (link.mention,)
        if start <= m.start and m.end <= end
    )
    return dataclasses.replace(text, text=text.text[start:end], links=links)
