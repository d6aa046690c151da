"""English pronouns of persons, and which person of the text each of them means.

A rule, fitted to no data: "he" and "she" mean the person named most often before them, of equals
the one named first; who was called "he" is not "she". A shorter name whose words are among those
of a longer one is the same person ("David Beckham", "Beckham"). Wikipedia and news speak of their
subject so; stories with several persons do not. "It", "they" and "this" are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from entity_linking.names.rules.variants import name_words

PERSONS = frozenset({"PER", "PERSON"})
"""Kinds of a tagger whose spans are persons."""
SHARE = 0.8
"""What is left of a person's confidence when only a pronoun stands there; judgement."""

_GENDERS = {
    word: gender
    for gender, words in (("m", "he him his himself"), ("f", "she her hers herself"))
    for word in words.split()
}
_PRONOUN = re.compile(rf"\b(?:{'|'.join(_GENDERS)})\b", re.IGNORECASE)


class Pronoun(NamedTuple):
    """`text[start:end]` means what the person at the place `person` of the list means."""

    start: int
    end: int
    person: int


@dataclass(slots=True)
class _Person:
    first: int
    words: frozenset[str]
    n_named: int = 1
    gender: str = ""
    places: list[int] = field(default_factory=list)


def pronouns(text: str, persons: Sequence[tuple[int, int]]) -> list[Pronoun]:
    """The pronouns of the text that a person precedes; `persons` are spans sorted by start.

    >>> pronouns("Ann met Bob. Ann said she knew his name.", [(0, 3), (8, 11), (13, 16)])
    [Pronoun(start=22, end=25, person=0), Pronoun(start=31, end=34, person=1)]
    """
    known: list[_Person] = []
    found: list[Pronoun] = []
    at = 0
    for match in _PRONOUN.finditer(text):
        while at < len(persons) and persons[at][1] <= match.start():
            _name(known, at, text[slice(*persons[at])])
            at += 1
        if any(start < match.end() and match.start() < end for start, end in persons[at:]):
            continue  # part of a name
        gender = _GENDERS[match[0].lower()]
        fitting = [person for person in known if person.gender in ("", gender)]
        if (match[0].isupper() and len(match[0]) > 1) or not fitting:
            continue  # "HIS" is an acronym
        person = max(fitting, key=lambda each: (each.n_named, -each.first))
        person.gender = gender
        found.append(Pronoun(match.start(), match.end(), person.first))
    return found


def _name(known: list[_Person], place: int, surface: str) -> None:
    words = frozenset(name_words(surface))
    for person in known:
        if words <= person.words or person.words <= words:
            person.words |= words
            person.n_named += 1
            return
    known.append(_Person(place, words))
