"""What a text says of its names: of which kind each is, and whether it is several.

    is a         "Elsby is a market town in Arden"      town
    with a comma "Elsby, a market town in Arden, ..."   town
    before it    "the market town Elsby"                town
    in itself    "Elsby Town", "River Elsby"            town, river

Rules of English, fitted to no data; kinds are taken from the text, not from a graph, of which many
entities have none. The last is the head match of coreference (Raghunathan et al. 2010, EMNLP).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from entity_linking.names.rules.variants import name_words

GROUPS = frozenset({
    "army", "band", "brothers", "choir", "club", "company", "duo", "ensemble", "family", "group",
    "orchestra", "party", "people", "quartet", "quintet", "sisters", "team", "tribe", "trio",
})  # fmt: skip
"""Kinds that "they" is said of."""

WORD = r"[^\W\d_][\w'’-]*"
_ENDS = (
    r"(?=\s+(?:about|and|at|based|by|composed|directed|for|found|from|in|located|near|of|on|"
    r"performed|published|recorded|released|situated|that|to|which|who|with|written)\b"
    r"|\s*[,.;:()\n]|\s*$)"
)
_ASIDE = r"[\"”’']?(?:\s*\([^()\n]{0,200}\))*"
_IS_A = re.compile(
    rf"{_ASIDE}(?:,?\s+(?:is|was|are|were)\s+(?:an?|the|one\s+of\s+the)|,\s+an?)\s+"
    rf"(?P<kind>(?:{WORD}\s+){{0,5}}?{WORD}){_ENDS}",
    re.IGNORECASE,
)
_ARE = re.compile(rf"{_ASIDE},?\s+(?:are|were)\s+(?:an?|the)\s", re.IGNORECASE)
_BEFORE = re.compile(r"(?<![\w-])(?P<kind>[a-z][a-z-]+)\s+[\"“‘']?$")
_REACH = 40


def kinds_said(text: str, start: int, end: int, *, is_person: bool | None) -> Iterator[str]:
    """The kinds, in lower case, that the text gives what it names at `start:end`, at that place.

    >>> text = "The band Ulm sailed the River Elsby."
    >>> [list(kinds_said(text, *at, is_person=None)) for at in ((9, 12), (24, 35))]
    [['band'], ['the', 'elsby', 'river']]
    """
    if before := _BEFORE.search(text, max(0, start - _REACH), start):
        yield before["kind"]
    words = name_words(text[start:end])
    if is_person is not True and len(words) > 1:
        yield from (words[-1], words[0])
    if match := _IS_A.match(text, end):
        yield match["kind"].split()[-1].lower()


def said_until(text: str, end: int) -> int:
    """Where what is said of the name that ends at `end` ends."""
    match = _IS_A.match(text, end)
    return end if match is None else match.end()


def is_several(text: str, start: int, end: int, *, is_person: bool | None) -> bool:
    """Whether "they" may be said of what the text names there."""
    if is_person:
        return False
    kinds = kinds_said(text, start, end, is_person=is_person)
    return _ARE.match(text, end) is not None or not GROUPS.isdisjoint(kinds)
