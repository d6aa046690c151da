"""English pronouns, and which name of the text each of them stands for.

Rules, fitted to no data. "He" and "she" mean the person named most often before them, of equals the
one named first; who was called "he" is not "she". "It" means what is named most often of all, and
nothing where that is a person. A name of unknown kind may be either, until a pronoun says. A
shorter name whose words are among those of a longer one names the same ("David Beckham",
"Beckham"). "They" means what is named most often of what is said to be several, a band or a team
(`detection.kinds.is_several`). Wikipedia and news speak of their subject so; stories with several
persons do not. "It is known that" and "this" are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from entity_linking.detection.kinds import is_several
from entity_linking.names.rules.variants import name_words

PERSONS = frozenset({"PER", "PERSON"})
"""Kinds of a tagger whose spans are persons."""
SHARE = 0.8
"""What is left of a name's confidence when only a pronoun stands there; judgement."""

_GENDERS = {
    word: gender
    for gender, words in (
        ("m", "he him his himself"),
        ("f", "she her hers herself"),
        ("n", "it its itself"),
        ("p", "they them their themselves"),
    )
    for word in words.split()
}
_PRONOUN = re.compile(rf"\b(?:{'|'.join(_GENDERS)})\b", re.IGNORECASE)
_MEANS_NOTHING = re.compile(r"(?:\s+\S+){1,4}?\s+(?:that|to|who|whether)\b", re.IGNORECASE)
_IS = re.compile(r"\s*(?:'s|is|was|has been|will be|would be|seems|appears)\b", re.IGNORECASE)


class Anaphor(NamedTuple):
    """`text[start:end]` means what the names at these places of the list mean."""

    start: int
    end: int
    names: tuple[int, ...]


@dataclass(slots=True)
class Named:
    """Something that the text names, at `places` of the list."""

    words: frozenset[str]
    is_person: bool | None
    places: list[int]
    gender: str = ""
    is_several: bool = False


def pronouns(
    text: str, names: Sequence[tuple[int, int]], are_persons: Sequence[bool | None]
) -> list[Anaphor]:
    """The pronouns of the text that stand for a name before them; `names` are sorted by start.

    `are_persons`: whether each names a person, None where that is not known.

    >>> names = [(0, 3), (8, 11), (13, 16)]
    >>> pronouns("Ann met Bob. Ann said she knew his name.", names, [True] * 3)
    [Anaphor(start=22, end=25, names=(0, 2)), Anaphor(start=31, end=34, names=(1,))]
    """
    known: list[Named] = []
    anaphors: list[Anaphor] = []
    at = 0
    for match in _PRONOUN.finditer(text):
        while at < len(names) and names[at][1] <= match.start():
            start, end = names[at]
            named = name_again(known, at, text[start:end], are_persons[at])
            named.is_several |= is_several(text, start, end, is_person=named.is_person)
            at += 1
        if any(start < match.end() and match.start() < end for start, end in names[at:]):
            continue  # part of a name
        if match[0].isupper() and len(match[0]) > 1:
            continue  # "HIS" is an acronym
        antecedent = _antecedent_of(known, _GENDERS[match[0].lower()])
        if antecedent is None or _is_empty(text, match):
            continue
        anaphors.append(Anaphor(match.start(), match.end(), tuple(antecedent.places)))
    return anaphors


def is_pronoun(surface: str) -> bool:
    """Whether the surface is one of the pronouns that are looked for."""
    return surface.lower() in _GENDERS


def _antecedent_of(known: Sequence[Named], gender: str) -> Named | None:
    """What a pronoun means, which has its gender from then on; what is several has none."""
    if gender == "p":
        several = [k for k in known if k.is_several and not k.is_person]
        return max(several, key=_salience, default=None)
    if gender == "n":
        named = max(known, key=_salience, default=None)
        if named is None or named.is_person or named.gender not in ("", "n"):
            return None
    else:
        fitting = [k for k in known if k.is_person is not False and k.gender in ("", gender)]
        named = max(fitting, key=_salience, default=None)
        if named is None:
            return None
        named.is_person = True
    named.gender = gender
    return named


def _salience(named: Named) -> tuple[int, int]:
    return len(named.places), -named.places[0]


def _is_empty(text: str, match: re.Match[str]) -> bool:
    """Whether it is the "it" of "it is known that"."""
    if match[0].lower() != "it" or not (verb := _IS.match(text, match.end())):
        return False
    return _MEANS_NOTHING.match(text, verb.end()) is not None


def name_again(known: list[Named], position: int, surface: str, is_person: bool | None) -> Named:
    """What the text names at a place of the list: something that is `known`, or a new thing."""
    words = frozenset(name_words(surface))
    for named in known:
        differ = None not in (is_person, named.is_person) and is_person != named.is_person
        if not differ and (words <= named.words or named.words <= words):
            named.words |= words
            named.places.append(position)
            named.is_person = is_person if named.is_person is None else named.is_person
            return named
    known.append(Named(words, is_person, [position]))
    return known[-1]
