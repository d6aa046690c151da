"""`Capitals`: which words of a text are written as names, by their capitals and where they stand.

English writes names with capitals, so a word without one is not a name; a capital at the beginning
of a sentence says nothing by itself. Rules of the language, fitted to no data; other languages
(German nouns) and text without case need other gates.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from entity_linking.names.rules.words import (
    ADJECTIVE_ENDS,
    BODIES,
    CALENDAR,
    LEGAL_SUFFIXES,
    PARTICLES,
    PARTNERS,
    ROLES,
    SHORT_TITLES,
    STOP_WORDS,
)

MOST_CAPITALS = 0.9
"""Share of words with a capital above which a text is a title; news sentences may have most."""
_WORD = re.compile(r"[^\W_](?:[\w&’'-]|\.(?=\w))*")
_POSSESSIVE = re.compile(r"(?:['’]s?|['’]S)$")
_BRACKETS = frozenset({"LRB-", "RRB-", "LSB-", "RSB-", "LCB-", "RCB-"})
"""Brackets as the Penn Treebank writes them ("-LRB-"), of which the hyphen before opens no word."""
_ENDS_SENTENCE = re.compile(r"[.!?\n]")
_OPENS = frozenset('.!?:;"“”‘(«[`\n')


class _Word(NamedTuple):
    start: int
    end: int
    is_capital: bool
    opens: bool  # it begins a sentence, a quotation, a bracket
    joins: bool  # nothing but blanks between it and the word before


class Capitals:
    """The words of `text`; `common_words` (lower case) are ordinary where they begin a sentence.

    >>> text = Capitals("Banks in Paris met.", {"banks"})
    >>> text.is_name(0, 5), text.is_name(9, 14)
    (False, True)
    """

    def __init__(self, text: str, common_words: Collection[str] = frozenset()) -> None:
        self._text, self._common = text, common_words
        self._words = list(_words(text))
        self._starts = [word.start for word in self._words]
        self._ends = [word.end for word in self._words]

    @cached_property
    def is_cased(self) -> bool:
        """Whether capitals say something in this text.

        Most of its sentences begin with one, and some of the other words have none, function words
        aside: so it is neither in small letters, nor in capitals, nor a title.
        """
        befores = [0, *self._ends]
        begins = [
            word.is_capital
            for word, before in zip(self._words, befores, strict=False)
            if not before or _ENDS_SENTENCE.search(self._text, before, word.start)
        ]
        others = [
            word.is_capital
            for word in self._words
            if not word.opens and self._form(word) not in STOP_WORDS
        ]
        is_some_small = sum(others) <= MOST_CAPITALS * len(others)
        return 2 * sum(begins) > len(begins) and is_some_small

    def is_name(self, start: int, end: int) -> bool:
        """Whether what stands there may be a name.

        Its first and its last word have a capital; it has a letter besides figures and is no
        weekday and no month; one word that begins a sentence is not a common word.
        """
        words = self._words[self._first(start) : bisect_left(self._starts, end)]
        if not words or not (words[0].is_capital and words[-1].is_capital):
            return False
        if self._text[start:end].islower() or self._is_date(start, end):
            return False
        return len(words) > 1 or not self._is_ordinary(words[0])

    def begins_as_name(self, start: int, end: int) -> bool:
        """Whether its first word has a capital that no beginning of a sentence explains.

        Figures have none: of "100 Bullets" the next word counts.
        """
        words = self._words[self._first(start) : bisect_left(self._starts, end)]
        lettered = [word for word in words if not self._form(word).isdecimal()]
        if not lettered or self._is_date(start, end):
            return False
        return lettered[0].is_capital and (lettered[0] != words[0] or not words[0].opens)

    def _is_date(self, start: int, end: int) -> bool:
        forms = re.findall(r"\w+", self._text[start:end].casefold())
        return all(form in CALENDAR or form.isdecimal() for form in forms)

    def is_whole(self, start: int, end: int) -> bool:
        """Whether no capitalised word is joined to it, titles and ordinary words aside."""
        first, after = self._first(start), bisect_left(self._starts, end)
        if not first < after <= len(self._words):
            return False
        if first and self._words[first].joins and self._continues(self._words[first - 1]):
            return False
        if first > 1 and self._is_joint(self._words[first - 2], first - 1):
            return False
        follows = self._words[after] if after < len(self._words) else None
        if follows is None or self._ends_company(self._words[after - 1], follows):
            return True
        if follows.is_capital:
            return not (follows.joins and self._continues(follows))
        return not self._is_joint(self._words[after - 1], after)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Capitalised words one after another, without ordinary words and titles before them.

        Particles join ("Cor van der Klugt"), "and" before a form of company does ("Burns and Co"),
        and such a form ends the run ("Cetus Corp CTUS"). Before one an ordinary word may stand
        ("Best Buy Co"), but no word of the language.
        """
        run: list[_Word] = []
        for position, word in enumerate([*self._words, None]):
            if word is not None and run and word.joins and self._goes_on(run[-1], position):
                run.append(word)
                continue
            if run:
                yield from self._trimmed(run)
            run = [word] if word is not None and word.is_capital else []

    def _goes_on(self, last: _Word, position: int) -> bool:
        """Whether the word at a place goes on with a run that ends before it."""
        word = self._words[position]
        if word.is_capital:
            return not (self._ends_company(last, word) or self._is_ordinary(word))
        follows = self._words[position + 1] if position + 1 < len(self._words) else None
        if follows is None or not follows.joins:
            return False
        form, after = self._form(word), self._form(follows)
        if form in PARTICLES:
            return follows.is_capital or after in PARTICLES
        return self._is_joint(last, position)

    def _is_joint(self, last: _Word, position: int) -> bool:
        """Whether a small word joins names before and after it: "Ada and Co", "Bank of Ulm"."""
        word, after = self._words[position], position + 1
        if not word.joins or after >= len(self._words):
            return False
        follows, form = self._words[after], self._form(word)
        if not (follows.joins and follows.is_capital):
            return False
        if form == "and":
            return self._form(follows) in PARTNERS
        return form in ("of", "for") and self._form(last) in BODIES

    def _trimmed(self, run: list[_Word]) -> Iterator[tuple[int, int]]:
        is_company = self._form(run[-1]) in LEGAL_SUFFIXES
        while run and not (
            self._continues(run[0])
            or (is_company and len(run) > 1 and self._form(run[0]) not in STOP_WORDS | ROLES)
        ):
            run = run[1:]
        while run and not run[-1].is_capital:
            run = run[:-1]
        if run and self.is_name(run[0].start, run[-1].end):
            yield run[0].start, run[-1].end

    def _ends_company(self, last: _Word, follows: _Word) -> bool:
        """Whether a company's name ends with `last`; "Co" and "Inc" may follow one another."""
        form = self._form(follows)
        return self._form(last) in LEGAL_SUFFIXES and form not in LEGAL_SUFFIXES

    def _first(self, start: int) -> int:
        """The place of the first word that ends after `start`."""
        return bisect_right(self._ends, start)

    def _form(self, word: _Word) -> str:
        return self._text[word.start : word.end].casefold()

    def _continues(self, word: _Word) -> bool:
        """Whether a word can be part of the name beside it."""
        form = self._form(word)
        if not word.is_capital or form in ROLES or form == "i":
            return False
        if "-" in form and form.rpartition("-")[2] in ADJECTIVE_ENDS:
            return False
        return not self._is_ordinary(word)

    def _is_ordinary(self, word: _Word) -> bool:
        surface = self._text[word.start : word.end]
        if not word.opens or any(letter.isupper() for letter in surface[1:]):
            return False
        return surface.casefold() in self._common or surface.casefold() in STOP_WORDS


def _words(text: str) -> Iterator[_Word]:
    before, initial, dotted = 0, False, False
    for match in _WORD.finditer(text):
        surface = match[0]
        if "'" in surface or "’" in surface:
            surface = _POSSESSIVE.sub("", surface)
        if not surface or surface in _BRACKETS:
            continue
        start, end = match.start(), match.start() + len(surface)
        between = text[before:start]
        marks = between.strip(" \t")
        opens = not before or (bool(marks) and any(c in _OPENS for c in marks))
        if initial and marks == ".":
            opens, marks = False, ""  # the point of an abbreviation
        elif dotted and marks == ".":
            marks = ""  # "U.S. Treasury"; a sentence may begin behind it all the same
        capital = not surface.islower() and any(letter.isupper() for letter in surface)
        yield _Word(start, end, capital, opens, bool(before) and not marks)
        before = end
        dotted = "." in surface
        initial = capital and (len(surface) == 1 or surface.casefold() in SHORT_TITLES)
