"""A question's rows: windows of a long context, one around its targets, or its choices.

Axis legend: word (word pieces), window.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from entity_linking.alignment import pieces_of_all
from entity_linking.mentions import Mention
from kept.errors import ConfigError
from kept.graphs.words import Words
from kept.heads.span import SpanOptions

WHOLE = 1 << 24
"""More word pieces than a text has: nothing is cut before there are windows."""


def windows(words: Words, context: int, *, max_words: int, options: SpanOptions) -> list[Words]:
    """Pieces of a question and its whole context, as windows of at most `max_words` pieces.

    The context is what starts at the character `context`. All special pieces stand in each window,
    and every piece of the context in one at least; characters stay those of the whole text. Raises
    `ConfigError` where the question leaves no room.
    """
    starts = words.spans[:, 0]
    second = np.flatnonzero(starts >= context)
    first = np.flatnonzero((starts >= 0) & (starts < context))
    always = np.setdiff1d(np.arange(len(starts)), np.r_[second, first[options.max_question :]])
    room = max_words - len(always)
    if room < 1:
        raise ConfigError(
            f"a question of {len(always)} word pieces leaves no room for its context within "
            f"max_words {max_words}; raise it, or lower the head's max_question"
        )
    stride = min(options.stride, room)
    last = max(len(second) - room, 0)
    begins = [*range(0, last, stride), last]
    return [words[np.sort(np.r_[always, second[at : at + room]])] for at in begins]


def around_targets(words: Words, targets: Sequence[Mention], *, max_words: int) -> Words | None:
    """The window of at most `max_words` pieces of a text that has its targets in the middle.

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


def choice_rows(
    words: Words, context: int, choices: Sequence[Mention], *, max_words: int
) -> list[Words]:
    """Pieces of a question and all choices, as one row for each choice: the question, and of what
    starts at the character `context` that choice alone.

    Where both are too long the question's first pieces are left out. Raises `ConfigError` where a
    choice leaves no room for any.
    """
    starts = words.spans[:, 0]
    special = np.flatnonzero(starts < 0)
    first = np.flatnonzero((starts >= 0) & (starts < context))
    bounds = np.array([(choice.start, choice.end) for choice in choices], np.int32)
    rows = []
    for start, stop in pieces_of_all(words.spans, bounds).tolist():
        room = max_words - len(special) - (stop - start)
        if room < 1:
            raise ConfigError(
                f"a choice of {stop - start} word pieces leaves no room for its question within "
                f"max_words {max_words}; raise it"
            )
        rows.append(words[np.sort(np.r_[special, first[-room:], start:stop])])
    return rows


def choice_pieces(words: Words, context: int, choices: Sequence[Mention]) -> Words:
    """The pieces of a question and of its choices, without those of the signs between choices."""
    bounds = np.array([(choice.start, choice.end) for choice in choices], np.int32)
    ranges = pieces_of_all(words.spans, bounds).tolist()
    question = np.flatnonzero(words.spans[:, 0] < context)
    return words[np.sort(np.r_[question, *(np.arange(*each) for each in ranges)])]


def n_pieces(words: Words, mention: Mention) -> int:
    """How many pieces share a character with `mention`."""
    starts, ends = words.spans.T
    return int(((starts >= 0) & (starts < mention.end) & (ends > mention.start)).sum())
