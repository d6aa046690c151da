"""English descriptions ("the town"), and which name of the text each of them stands for.

A text often says of what it names what kind of thing that is: "Elsby is a market town in ..."
(`detection.kinds`). From there on "the town" and "this town" mean it, until something else is said
to be one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from entity_linking.detection.kinds import kinds_said, said_until
from entity_linking.detection.pronouns import Anaphor, Named, is_pronoun, name_again

_DESCRIPTION = re.compile(r"\b(?:the|this)\s+(?P<kind>[^\W\d_][\w-]*)", re.IGNORECASE)


def descriptions(
    text: str, names: Sequence[tuple[int, int]], are_persons: Sequence[bool | None]
) -> list[Anaphor]:
    """The descriptions of the text that stand for a name before them; `names` as for `pronouns`.

    >>> text = "Elsby is a market town in Arden. The town burned."
    >>> descriptions(text, [(0, 5), (26, 31)], [None, False])
    [Anaphor(start=33, end=41, names=(0,))]
    """
    known: list[Named] = []
    kinds: dict[str, tuple[Named, int]] = {}
    anaphors: list[Anaphor] = []
    at = 0
    for match in _DESCRIPTION.finditer(text):
        while at < len(names) and names[at][1] <= match.start():
            start, end = names[at]
            named = name_again(known, at, text[start:end], are_persons[at])
            for kind in kinds_said(text, start, end, is_person=are_persons[at]):
                kinds[kind] = named, said_until(text, end)
            at += 1
        if any(start < match.end() and match.start() < end for start, end in names[at:]):
            continue  # part of a name
        antecedent, since = kinds.get(match["kind"].lower(), (None, 0))
        if antecedent is not None and match.start() >= since and _ends_here(text, match.end()):
            anaphors.append(Anaphor(match.start(), match.end(), tuple(antecedent.places)))
    return anaphors


def is_anaphor(surface: str) -> bool:
    """Whether the surface is a pronoun or a description, and no name."""
    match = _DESCRIPTION.fullmatch(surface)
    return is_pronoun(surface) or (match is not None and match["kind"].islower())


def _ends_here(text: str, end: int) -> bool:
    """Whether no noun and no name follows that the kind belongs to ("the town hall")."""
    following = _FOLLOWING.match(text, end)
    if following is None:
        return True
    word = following[1].lower()
    return word in _GOES_ON or word.endswith("ed")


_FOLLOWING = re.compile(r"\s+([\"“‘(]|[^\W\d_]+)")
_GOES_ON = frozenset(
    [
        "a",
        "after",
        "also",
        "and",
        "are",
        "as",
        "at",
        "because",
        "became",
        "began",
        "but",
        "by",
        "came",
        "can",
        "consists",
        "contains",
        "could",
        "did",
        "during",
        "ended",
        "features",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "if",
        "in",
        "includes",
        "into",
        "is",
        "it",
        "its",
        "lies",
        "made",
        "may",
        "more",
        "of",
        "on",
        "or",
        "over",
        "provides",
        "received",
        "reached",
        "remains",
        "runs",
        "she",
        "since",
        "so",
        "stands",
        "than",
        "that",
        "the",
        "then",
        "there",
        "they",
        "through",
        "to",
        "took",
        "under",
        "until",
        "was",
        "were",
        "when",
        "where",
        "which",
        "while",
        "who",
        "will",
        "won",
        "with",
        "would",
    ]
)
