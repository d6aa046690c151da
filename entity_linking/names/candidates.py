"""`NameCandidates`: what a mention may mean, by every rule about names; made for recall."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, LinkedText
from entity_linking.names.index import Entry, NameIndex
from entity_linking.names.priors import LEVEL_WEIGHTS, Hit, PriorFormula, levels, rank_entities
from entity_linking.names.rules.document import Longer, longer_mentions
from entity_linking.names.rules.variants import (
    KIND_WEIGHTS,
    Kind,
    loosen,
    name_words,
    query_variants,
    singulars,
    without_possessive,
)
from entity_linking.names.rules.words import CONNECTORS, STOP_WORDS
from entity_linking.names.segment import Source, fold_keys
from entity_linking.parts import Candidates

MOST_CACHED = 32_768
MOST_HELD = 2_048
TEXTS_PER_STEP = 256
MOST_INITIALLED = 256
LONGEST_INITIALS = 3
MOST_WORDS_INSIDE = 6
MOST_OVERLAPPING = 1_000

_REMEMBERED: WeakKeyDictionary[
    NameIndex, dict[tuple[int, bool, bool, PriorFormula], dict[str, Candidates]]
] = WeakKeyDictionary()
"""What surfaces may mean, by index and settings: mentions are found and linked by the same."""

Held = tuple[float, tuple[int, Source, float, int]]
"""The share of a name's words, and its entity, source, count and row."""


class NameCandidates:
    """Proposes entities by name: written so, varied, in part, or short for a mention near by.

    Every way from the surface to a name counts by its weight (`names.rules.variants`) in
    the prior of `entity_linking.names.priors`. A mention that is part of a longer one in the same
    text ("Beckham" and "David Beckham"), or its acronym, takes over the longer one's candidates in
    the share that `names.rules.document` gives, whichever comes first in the text.

    With `varied` off, only names written as the surface (in whatever case) count. With
    `covers_mention` on, only names with every word of the surface do, as written or inflected.

    >>> from entity_linking import gold_link
    >>> from kg_loaders import Text, TextKind, graph_from_records
    >>> index = NameIndex.build(graph_from_records([Text("Q10", TextKind.LABEL, "David Beckham")]))
    >>> text = LinkedText("Mr Beckham", (gold_link(3, 10, None),))
    >>> NameCandidates(index).candidates([text])[0][0][0].reason
    "part of label 'David Beckham'"
    """

    def __init__(
        self,
        index: NameIndex,
        *,
        max_candidates: int = 30,
        varied: bool = True,
        in_document: bool = True,
        covers_mention: bool = False,
        formula: PriorFormula = PriorFormula(),  # noqa: B008 - frozen
    ) -> None:
        if max_candidates < 1:
            raise LinkingError(f"max_candidates is {max_candidates}; give 1 or more")
        self._index, self._max, self._formula = index, max_candidates, formula
        self._varied, self._in_document = varied, in_document
        self._covers_mention = covers_mention
        settings = max_candidates, varied, covers_mention, formula
        self._cache = _REMEMBERED.setdefault(index, {}).setdefault(settings, {})
        self._held: dict[tuple[tuple[str, ...], int | None], list[Held]] = {}

    def __repr__(self) -> str:
        return f"NameCandidates({self._index!r}, max_candidates={self._max})"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, best prior first."""
        proposals: list[list[Candidates]] = []
        for start in range(0, len(texts), TEXTS_PER_STEP):
            step = texts[start : start + TEXTS_PER_STEP]
            surfaces = [
                [text.text[link.mention.start : link.mention.end] for link in text.links]
                for text in step
            ]
            self.learn(chain.from_iterable(surfaces))
            proposals.extend(map(self._of_text, step, surfaces))
        return proposals

    def of_surface(self, surface: str) -> Candidates:
        """The candidates of a surface that stands alone."""
        cached = self._cache.get(surface)
        if cached is None:
            self.learn([surface])
            cached = self._cache[surface]
        return cached

    def learn(self, surfaces: Iterable[str]) -> None:
        """Rank what is not remembered; keys are made for all of it at once, as that is cheaper."""
        new = [surface for surface in dict.fromkeys(surfaces) if surface not in self._cache]
        if not new:
            return
        if len(self._cache) + len(new) > MOST_CACHED:
            self._cache.clear()
        ways = [self._ways(surface) for surface in new]
        keys = iter(fold_keys([form for way in ways for form, _, _ in way.forms]))
        for surface, way in zip(new, ways, strict=True):
            hits = self._hits(way, list(islice(keys, len(way.forms))))
            self._cache[surface] = rank_entities(self._index, hits, self._formula, self._max)

    # ---- document ----------------------------------------------------------
    def _of_text(self, text: LinkedText, surfaces: list[str]) -> list[Candidates]:
        of_surfaces = [self.of_surface(surface) for surface in surfaces]
        if not self._in_document or len(of_surfaces) < 2:
            return of_surfaces
        starts = [link.mention.start for link in text.links]
        return [
            candidates
            if longer is None
            else self._inherit(candidates, of_surfaces[longer.position], longer)
            for candidates, longer in zip(
                of_surfaces, longer_mentions(surfaces, starts), strict=True
            )
        ]

    def _inherit(self, shorter: Candidates, longer: Candidates, link: Longer) -> Candidates:
        if not longer:
            return shorter
        share = link.share if shorter else 1.0
        mixed = {c.entity: (c.prior * (1 - share), c.reason) for c in shorter}
        for c in longer:
            before = mixed[c.entity][0] if c.entity in mixed else 0.0
            mixed[c.entity] = min(before + share * c.prior, 1.0), f"{link.reason}: {c.reason}"
        ranked = sorted(mixed.items(), key=lambda item: -item[1][0])  # ties keep their order
        return tuple(
            [
                Candidate(entity, prior, prior, reason)
                for entity, (prior, reason) in ranked[: self._max]
            ]
        )

    # ---- names -------------------------------------------------------------
    def _ways(self, surface: str) -> _Ways:
        if not self._varied:
            return _Ways([(surface, Kind.EXACT, 1.0)], "", [])
        variants = query_variants(surface)
        base = next((form for form, kind in variants if kind is Kind.TITLE), None)
        base = base or without_possessive(surface)
        words = loosen(base).split()
        forms = [(form, kind, 1.0) for form, kind in variants]
        if not self._covers_mention:
            forms.extend((form, Kind.INSIDE, share) for form, share in _inside(words))
        return _Ways(forms, base, words)

    def _hits(self, ways: _Ways, keys: list[str]) -> list[Hit]:
        hits: list[Hit] = []
        for (form, kind, share), key in zip(ways.forms, keys, strict=True):
            if entries := self._index.find_key(key):
                hits.extend(_looked_up(form, kind, entries, share))
        if not self._varied:
            return hits
        hits.extend(self._initialled(ways.words))
        informative = [word for word in name_words(ways.base) if word not in STOP_WORDS]
        if informative:
            hits.extend(self._in_part(informative))
            if not self._covers_mention:
                hits.extend(self._overlapping(informative))
        return hits

    def _initialled(self, words: list[str]) -> Iterator[Hit]:
        """Names that end as the mention does and begin with its initials: "JK Rowling"."""
        if len(words) < 2 or not _may_be_initials(words[0], words[1]):
            return
        letters, rest = words[0].casefold(), [word.casefold() for word in words[1:]]
        if CONNECTORS.intersection(rest):
            return
        for part, names in enumerate(self._index.holders(rest)):
            names = self._most_popular(part, names, MOST_INITIALLED)
            held = self._index.bearers(part, names)
            written = self._index.names([row for _, _, _, row in held])
            for bearer, name in zip(held, written, strict=True):
                name_words = loosen(name).casefold().split()
                before = name_words[: -len(rest)]
                initials = "".join(word[0] for word in before)
                if (
                    name_words[-len(rest) :] == rest
                    and initials
                    and _fits(letters, initials, before)
                ):
                    weight = KIND_WEIGHTS[Kind.INITIALS]
                    yield Hit(*bearer, weight, Kind.INITIALS, Kind.INITIALS)

    def _in_part(self, words: list[str]) -> list[Hit]:
        """Names that hold all words of the mention and more, by the share of words covered."""
        singular = [form for word in words[-1:] for form in singulars(word)]
        hits = self._holders(words, Kind.PARTIAL, 1.0)
        for form in singular:
            hits += self._holders([*words[:-1], form], Kind.PARTIAL, KIND_WEIGHTS[Kind.PLURAL])
        return hits

    def _overlapping(self, words: list[str]) -> Iterator[Hit]:
        """Names that hold all words of the mention but one, unless too many do."""
        if 2 <= len(words) <= MOST_WORDS_INSIDE:
            for i in range(len(words)):
                rest = words[:i] + words[i + 1 :]
                yield from self._holders(rest, Kind.OVERLAP, 1.0, most=MOST_OVERLAPPING)

    def _holders(
        self, words: list[str], kind: Kind, weight: float, most: int | None = None
    ) -> list[Hit]:
        key = tuple(words), most
        held = self._held.get(key)
        if held is None:
            held = self._find_holders(words, most)
            if len(words) == 1:  # others seldom come again
                if len(self._held) >= MOST_HELD:
                    self._held.clear()
                self._held[key] = held
        by_kind = KIND_WEIGHTS[kind] * weight
        return [
            Hit(entity, source, n_seen, row, by_kind * share, kind, kind)
            for share, (entity, source, n_seen, row) in held
        ]

    def _find_holders(self, words: list[str], most: int | None) -> list[Held]:
        """The names with the best share of words and popularity, of each segment."""
        holders: list[Held] = []
        for part, names in enumerate(self._index.holders(words)):
            if not len(names) or (most is not None and len(names) > most):
                continue
            segment = self._index.segments[part]
            popularity = self._index.popularity[segment.name_entities[names]]
            shares = len(words) / segment.name_words[names].astype(np.float64)
            best = _highest(shares * (1.0 + popularity) ** self._formula.alpha, 2 * self._max)
            bearers = self._index.bearers(part, names[best])
            holders.extend(zip(shares[best].tolist(), bearers, strict=True))
        return holders

    def _most_popular(self, part: int, names: NDArray[np.int32], n: int) -> NDArray[np.int32]:
        popularity = self._index.popularity[self._index.segments[part].name_entities[names]]
        return names[_highest(popularity, n)]


class _Ways(NamedTuple):
    """The forms to look a surface up by, with kind and share; what it is without title; words."""

    forms: list[tuple[str, Kind, float]]
    base: str
    words: list[str]


def _highest(values: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """The places of the n highest values, the highest first, ties in order."""
    if len(values) <= 4 * n:
        return np.argsort(-values, kind="stable")[:n]
    bound = np.partition(values, len(values) - n)[len(values) - n]
    places = np.flatnonzero(values >= bound)
    return places[np.argsort(-values[places], kind="stable")[:n]]


def _looked_up(form: str, kind: Kind, entries: Sequence[Entry], share: float) -> list[Hit]:
    if kind is Kind.DEMONYM:
        entries = [entry for entry in entries if entry.kind is Kind.EXACT]
    by_query, hits = KIND_WEIGHTS[kind] * share, []
    for entry, level in zip(entries, levels(form, entries), strict=True):
        by_name = KIND_WEIGHTS[entry.kind] if entry.kind is not kind else 1.0
        hits.append(Hit.of(entry, by_query * by_name * LEVEL_WEIGHTS[level], kind))
    return hits


def _inside(words: list[str]) -> Iterator[tuple[str, float]]:
    """What begins or ends the mention, with the share of its words."""
    n = len(words)
    if 2 <= n <= MOST_WORDS_INSIDE:
        for span in [words[:i] for i in range(1, n)] + [words[i:] for i in range(1, n)]:
            if any(word.lower() not in STOP_WORDS | CONNECTORS for word in span):
                yield " ".join(span), len(span) / n


def _may_be_initials(first: str, second: str) -> bool:
    is_cased = first.isupper() or (first.islower() and second.islower())
    return first.isalpha() and len(first) <= LONGEST_INITIALS and is_cased


def _fits(letters: str, initials: str, before: Iterable[str]) -> bool:
    """Whether letters are the initials, the first of them, or the names already run together."""
    return (
        initials == letters
        or (len(letters) == 1 and initials[0] == letters)
        or ("".join(before) == letters)
    )
