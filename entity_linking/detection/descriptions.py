"""English descriptions ("the town"), and which name of the text each of them stands for.

A text often says of what it names what kind of thing that is: "Elsby is a market town in ...". From
there on "the town" and "this town" mean it, until something else is said to be one. A rule, fitted
to no data; kinds are taken from the text, not from a graph, of which many entities have none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from entity_linking.detection.pronouns import Anaphor, Named, name_again

_WORD = r"[^\W\d_][\w'’-]*"
_KIND = re.compile(
    r"[\"”’']?(?:\s*\([^()\n]{0,200}\))*,?\s+(?:is|was|are|were)\s+(?:an?|the|one\s+of\s+the)\s+"
    rf"(?P<kind>(?:{_WORD}\s+){{0,5}}?{_WORD})"
    r"(?=\s+(?:about|and|at|based|by|composed|directed|for|found|from|in|located|near|of|on|"
    r"performed|published|recorded|released|situated|that|to|which|who|with|written)\b"
    r"|\s*[,.;:()\n]|\s*$)",
    re.IGNORECASE,
)
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
    found: list[Anaphor] = []
    at = 0
    for match in _DESCRIPTION.finditer(text):
        while at < len(names) and names[at][1] <= match.start():
            start, end = names[at]
            named = name_again(known, at, text[start:end], are_persons[at])
            if said := _KIND.match(text, end):
                kinds[said["kind"].split()[-1].lower()] = named, said.end()
            at += 1
        if any(start < match.end() and match.start() < end for start, end in names[at:]):
            continue  # part of a name
        meant, since = kinds.get(match["kind"].lower(), (None, 0))
        if meant is not None and match.start() >= since and _ends_here(text, match.end()):
            found.append(Anaphor(match.start(), match.end(), tuple(meant.places)))
    return found


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
        "into",
        "is",
        "it",
        "its",
        "made",
        "may",
        "more",
        "of",
        "on",
        "or",
        "over",
        "received",
        "reached",
        "she",
        "since",
        "so",
        "than",
        "that",
        "the",
        "then",
        "there",
        "they",
        "through",
        "to",
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
        "with",
        "would",
    ]
)
