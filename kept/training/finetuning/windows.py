"""A question's rows: windows of a long context, or its choices.

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
