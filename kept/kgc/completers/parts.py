"""Which parts of two descriptions made an answer: each is left out in turn."""

from __future__ import annotations

import re
from collections.abc import Callable

from kept.kgc.completers.base import Reason
from kept.kge.simkgc.texts import Texts

_BORDER = re.compile(r"(?<=[.;,])\s+")
_FEW_WORDS = 12


def parts_of(description: str) -> list[str]:
    """Sentences and clauses; the words of a description that has only one and is short.

    >>> parts_of("a city in Italy, on the Po"), parts_of("Swiss mathematician")
    (['a city in Italy,', 'on the Po'], ['Swiss', 'mathematician'])
    """
    parts = _BORDER.split(description)
    words = description.split()
    return words if len(parts) == 1 and len(words) <= _FEW_WORDS else parts


def parts_behind(
    texts: Texts, query_end: int, answer: int, score: Callable[[Texts], float]
) -> list[Reason]:
    """Every part of both entities' descriptions with the change of `score` without it."""
    whole, reasons = score(texts), []
    for entity, whose in ((query_end, "question"), (answer, "answer")):
        parts = parts_of(texts.descriptions[entity])
        for i, part in enumerate(parts):
            rest = " ".join(parts[:i] + parts[i + 1 :])
            change = whole - score(texts.with_description(entity, rest))
            reasons.append(Reason("text", f"{texts.names[entity]} ({whose}): {part}", change))
    return sorted(reasons, key=lambda one: -one.change)
