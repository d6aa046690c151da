"""Short names after full ones: which mentions of a text are short for another of them.

People are called by their full name once and by a part of it afterwards ("David Beckham ...
Beckham"), organisations by their acronym. A mention is taken as short for a longer one when its
words are some of the longer one's words, or it is the longer one's acronym. The nearest longer
mention before it counts, failing that the nearest after it.

`share` is how much of its prior the short mention takes from the longer one; the rest stays with
the names it bears itself, since a part of a name can mean something else ("Manchester" beside
"Manchester United"). It is high when the short mention is the end of the longer one, where
surnames stand, or its acronym. The numbers are judgement, not fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from entity_linking.names.rules.variants import acronyms, name_words, without_possessive

MOST_REMEMBERED = 16_384
SHARE_OF_END, SHARE_OF_ACRONYM, SHARE_OF_PART = 0.8, 0.8, 0.4


class Longer(NamedTuple):
    """The mention `place` that another one is short for."""

    position: int
    share: float
    reason: str


def longer_mentions(surfaces: Sequence[str], starts: Sequence[int]) -> list[Longer | None]:
    """For each mention of a text the longer one that it is short for.

    >>> longer_mentions(["David Beckham", "Beckham", "Posh"], [0, 20, 40])[1]
    Longer(position=0, share=0.8, reason="short for 'David Beckham' at 0")
    """
    described = list(map(_described, surfaces))
    words = [each.words for each in described]
    with_word: dict[str, list[int]] = {}
    with_acronym: dict[str, list[int]] = {}
    for position, part in enumerate(words):
        if len(part) < 2:
            continue
        for word in part:
            with_word.setdefault(word, []).append(position)
        for acronym in described[position].acronyms:
            with_acronym.setdefault(acronym, []).append(position)
    if not with_word:
        return [None] * len(words)
    longer: list[Longer | None] = []
    for position, part in enumerate(words):
        short = described[position].short
        places = [p for p in with_word.get(part[0], []) if _is_part(part, words[p])] if part else []
        named = [p for p in with_acronym.get(short, []) if len(part) == 1]
        if not places and not named:
            longer.append(None)
            continue
        nearest = _nearest(places or named, position)
        if not places:
            share = SHARE_OF_ACRONYM
        else:
            is_end = words[nearest][-len(part) :] == part
            share = SHARE_OF_END if is_end else SHARE_OF_PART
        reason = f"short for {surfaces[nearest]!r} at {starts[nearest]}"
        longer.append(Longer(nearest, share, reason))
    return longer


class _Described(NamedTuple):
    """The informative words of a surface, its acronyms, and the acronym that it may be itself."""

    words: tuple[str, ...]
    acronyms: tuple[str, ...]
    short: str


@lru_cache(maxsize=MOST_REMEMBERED)
def _described(surface: str) -> _Described:
    base = without_possessive(surface)
    words = tuple(name_words(base))
    return _Described(words, tuple(acronyms(base)) if len(words) > 1 else (), base.replace(".", ""))


def _is_part(shorter: tuple[str, ...], longer: tuple[str, ...]) -> bool:
    return len(shorter) < len(longer) and set(shorter) <= set(longer)


def _nearest(places: Sequence[int], position: int) -> int:
    before = [p for p in places if p < position]
    return before[-1] if before else places[0]
