"""Other ways to write a name, by rules that need no training data.

Two sides meet in the same key. `name_variants` are the forms under which a label or alias is
stored; `query_variants` are the forms under which a mention is looked up. Rules that shorten a name
are on both sides; rules with many possible outcomes (demonyms, plurals) run on the query alone and
are checked against the names that exist, which keeps the index small.

Every form has a `Kind`, and every kind a weight below that of the name as it is written
(`KIND_WEIGHTS`). The weights order kinds by how often such a guess is right; they are judgement,
not fitted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from entity_linking.names.rules.spelt import spellings, unmarked
from entity_linking.names.rules.words import (
    ARTICLES,
    BEFORE_TITLES,
    CONNECTORS,
    DEMONYM_ENDINGS,
    DERIVED_ENDINGS,
    IRREGULAR_DEMONYMS,
    LEGAL_SUFFIXES,
    NUMBERS,
    TITLES,
)


class Kind(IntEnum):
    """How a form comes from a name. The numbers are the storage format."""

    EXACT = 0
    SPELLING = 1
    DISAMBIGUATOR = 2
    COMMA = 3
    ARTICLE = 4
    LEGAL = 5
    ACRONYM = 6
    # of mentions only, never stored:
    CASE = 16
    POSSESSIVE = 17
    PLURAL = 18
    TITLE = 19
    SPACING = 20
    MIDDLE = 21
    DEMONYM = 22
    INITIALS = 23
    PARTIAL = 24
    INSIDE = 25
    OVERLAP = 26


KIND_WEIGHTS: dict[Kind, float] = {
    Kind.EXACT: 1.0,
    Kind.SPELLING: 0.7,
    Kind.DISAMBIGUATOR: 0.9,
    Kind.COMMA: 0.4,
    Kind.ARTICLE: 0.8,
    Kind.LEGAL: 0.8,
    Kind.ACRONYM: 0.05,
    Kind.CASE: 0.4,
    Kind.POSSESSIVE: 0.9,
    Kind.PLURAL: 0.4,
    Kind.TITLE: 0.6,
    Kind.SPACING: 0.5,
    Kind.MIDDLE: 0.3,
    Kind.DEMONYM: 0.3,
    Kind.INITIALS: 0.2,
    Kind.PARTIAL: 0.05,
    Kind.INSIDE: 0.02,
    Kind.OVERLAP: 0.01,
}

REASONS: dict[Kind, str] = {
    Kind.EXACT: "",
    Kind.SPELLING: "spelling of ",
    Kind.DISAMBIGUATOR: "short for ",
    Kind.COMMA: "short for ",
    Kind.ARTICLE: "without article, ",
    Kind.LEGAL: "without legal form, ",
    Kind.ACRONYM: "acronym of ",
    Kind.CASE: "other case of ",
    Kind.POSSESSIVE: "possessive of ",
    Kind.PLURAL: "inflection of ",
    Kind.TITLE: "title before ",
    Kind.SPACING: "other spacing of ",
    Kind.MIDDLE: "with a middle name, ",
    Kind.DEMONYM: "derived from ",
    Kind.INITIALS: "initials of ",
    Kind.PARTIAL: "part of ",
    Kind.INSIDE: "holds ",
    Kind.OVERLAP: "shares words with ",
}
"""How a reason begins; the name follows."""


class Variant(NamedTuple):
    """A form and how it comes from what was written."""

    form: str
    kind: Kind


_PLAIN = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")
_NUMBER = re.compile(rf"\b(?:{'|'.join(NUMBERS)})\b", re.IGNORECASE)
_POINT = re.compile(r"(?<![0-9])[.]|[.](?![0-9])|['’ʻʼ`]")
_PUNCTUATION = re.compile(r"[^\w\s+#$€£@%*]|_")
_LETTER_RUN = re.compile(r"\b([^\W\d_]) (?=[^\W\d_]\b)")
_PARENTHESES = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
LONGEST_ACRONYM_WORDS = 8


@lru_cache(maxsize=16_384)  # the variants of a name ask for the same forms again and again
def loosen(form: str) -> str:
    """A spelling without what writers leave out: diacritics, points, hyphens; figures for numbers.

    Case stays. Marks are dropped only where they are diacritics (U+0300 to U+036F), never the
    vowel signs of other scripts. A form of nothing but punctuation stays as it is.

    >>> loosen("Jean-Luc Ó Nualláin, Jr."), loosen("J. R. R. Tolkien"), loosen("AT&T")
    ('Jean Luc O Nuallain Jr', 'JRR Tolkien', 'AT and T')
    """
    loose = unmarked(form)
    if not _PLAIN.fullmatch(loose):
        loose = _POINT.sub("", loose.replace("&", " and "))
        loose = " ".join(_PUNCTUATION.sub(_space_unless_mark, loose).split())
    loose = _LETTER_RUN.sub(r"\1", loose)
    loose = _NUMBER.sub(lambda match: NUMBERS[match[0].lower()], loose)
    return loose or form


def _space_unless_mark(match: re.Match[str]) -> str:
    return match[0] if unicodedata.category(match[0])[0] in "MSC" else " "


# ---- names -----------------------------------------------------------------
def name_variants(name: str) -> list[Variant]:
    """The forms under which a label or alias is stored, the name itself first, each form once.

    >>> [f"{v.form}: {v.kind.name}" for v in name_variants("The Who (band)")][:3]
    ['The Who (band): EXACT', 'The Who: DISAMBIGUATOR', 'Who: ARTICLE']
    """
    forms = list(_reductions(name))
    plain = forms[1].form if forms[1:] and forms[1].kind is Kind.DISAMBIGUATOR else name
    kinds: dict[str, Kind] = {}
    for form, kind in forms:
        kinds.setdefault(form, kind)
    for form, kind in forms:
        kinds.setdefault(loosen(form), kind if kind is not Kind.EXACT else Kind.SPELLING)
    for form in spellings(plain):
        kinds.setdefault(form, Kind.SPELLING if plain == name else Kind.DISAMBIGUATOR)
    for form in acronyms(without_legal_form(plain)):
        kinds.setdefault(form, Kind.ACRONYM)
    return [Variant(form, kind) for form, kind in kinds.items()]


def _reductions(name: str) -> Iterator[Variant]:
    yield Variant(name, Kind.EXACT)
    reduced = name
    if name[-1] in ")]）" and (short := _PARENTHESES.sub("", name)) and short != name:
        reduced = short
        yield Variant(reduced, Kind.DISAMBIGUATOR)
    before, comma, after = reduced.partition(", ")
    if comma and after and before and not is_legal(after.split()[0]):
        yield Variant(before, Kind.COMMA)
    first, _, rest = reduced.partition(" ")
    if rest and first.lower() in ARTICLES:
        yield Variant(rest, Kind.ARTICLE)
    if (stem := without_legal_form(reduced)) != reduced:
        yield Variant(stem, Kind.LEGAL)


def is_legal(word: str) -> bool:
    """Whether a word is a legal form such as "Inc."."""
    return word.replace(".", "").strip(",()").lower() in LEGAL_SUFFIXES


def without_legal_form(name: str) -> str:
    """The name without legal forms at its end, as it is when nothing else is left.

    >>> without_legal_form("Acme Co., Ltd.")
    'Acme'
    """
    words = name.split(" ")
    n = len(words)
    while n > 1 and is_legal(words[n - 1]):
        n -= 1
    if n == len(words):
        return name
    while n > 1 and words[n - 1] in ("&", "and"):
        n -= 1
    return " ".join(words[:n]).rstrip(",") or name


def acronyms(name: str) -> list[str]:
    """First letters of a name of several capitalised words, without and with its connectors.

    >>> acronyms("World Health Organization"), acronyms("Department of Defense"), acronyms("art of")
    (['WHO'], ['DD', 'DoD'], [])
    """
    words = name.replace("-", " ").split()
    if not 2 <= len(words) <= LONGEST_ACRONYM_WORDS:
        return []
    letters, whole = [], []
    for word in words:
        initial = word[0]
        if initial.isupper():
            letters.append(initial)
        elif word not in CONNECTORS and word != "&":
            return []
        if initial.isalpha():
            whole.append(initial)
    if len(letters) < 2:
        return []
    return list(dict.fromkeys(["".join(letters), "".join(whole)]))


def name_words(name: str) -> list[str]:
    """The words of a name that part of it may be looked up by, folded, in order.

    >>> name_words("The Duchy of Brabant (state)")
    ['duchy', 'brabant']
    """
    words = loosen(_PARENTHESES.sub("", name) or name).casefold().split()
    informative = [w for w in words if w not in CONNECTORS and w not in LEGAL_SUFFIXES]
    return list(dict.fromkeys(informative))


# ---- mentions --------------------------------------------------------------
def query_variants(surface: str) -> list[Variant]:
    """The forms under which a mention is looked up, itself first, each form once.

    >>> [f"{v.form}: {v.kind.name}" for v in query_variants("Mr. Obama's")][:3]
    ["Mr. Obama's: EXACT", 'Mr. Obama: POSSESSIVE', 'Obama: TITLE']
    """
    forms = [Variant(surface, Kind.EXACT)]
    base = without_possessive(surface)
    if base != surface:
        forms.append(Variant(base, Kind.POSSESSIVE))
    forms.extend(list(_reductions(base))[1:])
    forms.extend(_without_title(base))
    forms.extend(_inflections(base))
    forms.extend(_spacings(base))
    forms.extend(_without_middle(loosen(base)))
    forms.extend(Variant(form, Kind.DEMONYM) for form in demonym_stems(base))
    kinds: dict[str, Kind] = {}
    for form, kind in forms:
        kinds.setdefault(form, kind)
    for form, kind in forms:
        if kind is not Kind.DEMONYM:
            kinds.setdefault(loosen(form), kind if kind is not Kind.EXACT else Kind.SPELLING)
    return [Variant(form, kind) for form, kind in kinds.items() if form.strip()]


def without_possessive(surface: str) -> str:
    """The surface without the ending of an English possessive.

    >>> without_possessive("Moses'"), without_possessive("Obama's")
    ('Moses', 'Obama')
    """
    for ending in ("'s", "’s", " 's", "s'", "s’"):
        if surface.endswith(ending) and len(surface) > len(ending) + 1:
            cut = len(ending) - (ending[0] == "s")
            return surface[:-cut].rstrip()
    return surface


def _without_title(surface: str) -> Iterator[Variant]:
    words = surface.split()
    n = 0
    while n < len(words) - 1 and words[n].strip(".,-").lower() in TITLES | BEFORE_TITLES:
        n += 1
    if n and words[n - 1].strip(".,-").lower() in TITLES:
        yield Variant(" ".join(words[n:]), Kind.TITLE)


def _inflections(surface: str) -> Iterator[Variant]:
    for form in singulars(surface):
        yield Variant(form, Kind.PLURAL)
    if surface[-1:].isalpha() and surface[-1:].isascii() and not surface.endswith(("s", "S")):
        yield Variant(surface + "s", Kind.PLURAL)


def singulars(surface: str) -> list[str]:
    """What the surface may be the plural of, by its English ending.

    >>> singulars("Germanies"), singulars("Boxes"), singulars("Boss")
    (['Germany', 'Germanie'], ['Box', 'Boxe'], [])
    """
    if len(surface) < 4 or not surface.endswith("s") or surface.endswith(("ss", "us", "is")):
        return []
    forms = [surface[:-1]]
    if surface.endswith("ies"):
        forms.insert(0, surface[:-3] + "y")
    elif surface.endswith(("xes", "ches", "shes", "sses", "oes")):
        forms.insert(0, surface[:-2])
    return forms


def _spacings(surface: str) -> Iterator[Variant]:
    if "-" in surface or " " in surface:
        joined = surface.replace("-", "").replace(" ", "")
        if joined and surface.count(" ") + surface.count("-") == 1:
            yield Variant(joined, Kind.SPACING)
    if (split := _CAMEL.sub(" ", surface)) != surface:
        yield Variant(split, Kind.SPACING)


def _without_middle(loose: str) -> Iterator[Variant]:
    words = loose.split()
    if 3 <= len(words) <= 4 and not CONNECTORS.intersection(w.lower() for w in words):
        yield Variant(f"{words[0]} {words[-1]}", Kind.MIDDLE)


def demonym_stems(surface: str) -> list[str]:
    """Names that the surface may be derived from, likeliest first; most of them do not exist.

    Places of demonyms, and fields, faiths and instruments ("Buddhist", "cellist").

    >>> demonym_stems("Japanese")[:2], demonym_stems("Dutch")[:1], demonym_stems("New Yorkers")[:1]
    (['Japan', 'Japana'], ['Netherlands'], ['New York'])
    """
    before, gap, word = surface.rpartition(" ")
    stems: list[str] = []
    for form in (word, *singulars(word)):
        if not before:
            stems.extend(IRREGULAR_DEMONYMS.get(form.lower(), ()))
        for ending, endings in DEMONYM_ENDINGS + DERIVED_ENDINGS:
            if form.lower().endswith(ending) and len(form) >= len(ending) + 3:
                stems.extend(_stems(form[: -len(ending)], endings))
    return [before + gap + stem for stem in dict.fromkeys(stems)]


def _stems(stem: str, endings: Iterable[str]) -> Iterator[str]:
    for ending in endings:
        yield stem + ending
    if len(stem) > 3 and stem[-1] == stem[-2]:
        for ending in endings:
            yield stem[:-1] + ending
