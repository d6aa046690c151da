"""p(entity | surface) from names, popularity and counts.

    p(e | s) = (n(s, e) + m q(e | s)) / (sum over e' of n(s, e') + m)
    q(e | s) ∝ v(s, e) (1 + popularity(e)) ** alpha

`n(s, e)` is how often s was linked to e in annotated text, and the frequency of an alias. Without
counts p is q; with them q is a Dirichlet prior worth m links, which many links outvote. `v` is the
weight of the best way from a name of e to s: what the name is (label 1, alias or surface seen
linked 0.5) times the weight of each rule between them (`KIND_WEIGHTS`; a rule scales the counts
too). `popularity(e)` is the number of triples of e and of its links in the counts: mentions of an
entity grow with its connections, but slower than they do, so alpha is 0.5 (`popularity` is no more
than a proxy; 0 ignores it). Weights and alpha are judgement, not fitted; a `Scorer` may relearn the
mix from its features.

The better prior goes first; ties go to the more popular entity, then to the shorter identifier (in
Wikidata the older one), then to the one that sorts first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate
from entity_linking.names.index import Entry, NameIndex
from entity_linking.names.rules.case import raised_forms
from entity_linking.names.rules.variants import KIND_WEIGHTS, REASONS, Kind, name_variants
from entity_linking.names.segment import Source
from entity_linking.surfaces import normalise

COUNTED_WEIGHT = 0.5
WRITTEN, RAISED, OTHER = 0, 1, 2
MOST_REMEMBERED = 16_384
LEVEL_WEIGHTS = (1.0, 0.9, KIND_WEIGHTS[Kind.CASE])
_SOURCE_WORDS = {Source.LABEL: "label", Source.ALIAS: "alias", Source.COUNTED: "seen linked as"}


@dataclass(frozen=True, slots=True)
class PriorFormula:
    """The numbers of the formula above: `alpha`, `m`, and what an `alias` weighs beside a label."""

    alpha: float = 0.5
    m: float = 10.0
    alias: float = 0.5

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.m <= 0 or self.alias <= 0:
            raise LinkingError(f"{self} needs alpha of 0 or more, m and alias above 0")


LABELS_FIRST = PriorFormula(alpha=0.0, alias=0.1)
"""A label outweighs an alias ten to one, however well connected their entities are."""


class Hit(NamedTuple):
    """A name that a surface leads to; `weight` is that of the rules between them.

    Entity, source, count and row are those of an `Entry`; `kind` says how the surface leads to a
    key, `name_kind` how the name does.
    """

    entity: int
    source: Source
    n_seen: float
    row: int
    weight: float
    kind: Kind
    name_kind: Kind

    @classmethod
    def of(cls, entry: Entry, weight: float, kind: Kind) -> Hit:
        """The hit of an entry."""
        entity, _, name_kind, source, n_seen, row = entry
        return cls(entity, source, n_seen, row, weight, kind, name_kind)

    def reason(self, name: str) -> str:
        """For people: how the surface leads to the entity with this name."""
        words = REASONS[self.name_kind]
        words = REASONS[self.kind] + words if self.kind is not self.name_kind else words
        return f"{words}{_SOURCE_WORDS[self.source]} {name!r}"


def levels(surface: str, entries: Iterable[Entry]) -> list[int]:
    """How the case of `surface` stands to each entry of its key.

    0: written just so. 1: raised (first letter, all words, all capitals, `raised_forms`).
    2: anything else. Only case and twins of characters can differ, since the folded keys are equal;
    where a name has the very characters ("H₂O"), twins of it ("H2O") are something else.
    """
    written_name, folded, fits = _squeezed(surface, fold=False), "", []
    entries = list(entries)
    for entry in entries:
        if entry.kind is Kind.ACRONYM:
            fits.append(WRITTEN if sum(map(str.isupper, written_name)) > 1 else OTHER)
        elif entry.kind is Kind.EXACT:
            fits.append(_level(written_name, entry.name))
        else:
            folded = folded or _squeezed(surface, fold=True)
            forms = _forms(entry.name, entry.kind)
            same = [form for form, squeezed in forms if squeezed == folded]
            fits.append(min((_level(written_name, form) for form in same), default=OTHER))
    return _just_so(surface, entries, fits) if len(fits) > 1 else fits


def _just_so(surface: str, entries: Sequence[Entry], fits: list[int]) -> list[int]:
    """`fits`, where a name has the very characters, without those that are only spelt alike."""
    characters = _characters(surface)
    same = [e.kind is Kind.EXACT and _characters(e.name) == characters for e in entries]
    if not any(same):
        return fits
    return [
        OTHER if e.kind is Kind.EXACT and fit == WRITTEN and not is_same else fit
        for e, fit, is_same in zip(entries, fits, same, strict=True)
    ]


def _characters(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


@lru_cache(maxsize=MOST_REMEMBERED)
def _forms(name: str, kind: Kind) -> tuple[tuple[str, str], ...]:
    """The forms of a name of this kind, each also folded and without spaces."""
    forms = (form for form, form_kind in name_variants(name) if form_kind is kind)
    return tuple((form, _squeezed(form, fold=True)) for form in forms)


def _level(name: str, written: str) -> int:
    if name == written:
        return WRITTEN
    form = " ".join(normalise(written, fold=False)[0].split())
    if form.replace(" ", "") == name:
        return WRITTEN
    return RAISED if name in {way.replace(" ", "") for way in raised_forms(form)} else OTHER


def _squeezed(surface: str, *, fold: bool) -> str:
    return "".join(normalise(surface, fold=fold)[0].split())


def rank_entities(
    index: NameIndex, hits: Iterable[Hit], formula: PriorFormula, max_candidates: int
) -> tuple[Candidate, ...]:
    """The candidates that hits stand for, by the formula of this module; best prior first."""
    hits = list(hits)
    if len(hits) == 1 and hits[0].weight > 0:
        return _named(index, [(-1.0, 0.0, hits[0].entity)], {hits[0].entity: (0.0, hits[0])}, 1)
    best: dict[int, Hit] = {}
    for hit in hits:
        before = best.get(hit.row)
        if hit.weight > (0.0 if before is None else before.weight):
            best[hit.row] = hit
    by_source = {Source.LABEL: 1.0, Source.ALIAS: formula.alias, Source.COUNTED: COUNTED_WEIGHT}
    strongest: dict[int, tuple[float, Hit]] = {}
    for hit in best.values():
        weight = hit.weight * by_source[hit.source]
        known = strongest.get(hit.entity)
        if known is None or known[0] < weight:
            strongest[hit.entity] = weight, hit
    n_links = _links(index, [hit for hit in best.values() if hit.n_seen])
    popularity = index.popularity[np.fromiter(strongest, np.int64, len(strongest))].tolist()
    guess = [
        weight * (1.0 + popular) ** formula.alpha
        for (weight, _), popular in zip(strongest.values(), popularity, strict=True)
    ]
    guessed, linked = sum(guess), sum(n_links.values())
    ranked = sorted(
        [(-(n_links.get(entity, 0.0) + formula.m * guessed_kind / guessed) / (linked + formula.m),
          -popular, entity)
         for entity, guessed_kind, popular in zip(strongest, guess, popularity, strict=True)]
    )  # fmt: skip
    return _named(index, _with_ties(ranked, max_candidates), strongest, max_candidates)


def _links(index: NameIndex, hits: Sequence[Hit]) -> dict[int, float]:
    """How often the surface was linked to each entity, by the hits with counts."""
    seen: dict[int, dict[tuple[str, Source], float]] = {}
    for hit, name in zip(hits, index.names([hit.row for hit in hits]) if hits else (), strict=True):
        of_entity, name_and_source = seen.setdefault(hit.entity, {}), (name, hit.source)
        before, count = of_entity.get(name_and_source, 0.0), hit.n_seen * hit.weight
        is_counted = hit.source is Source.COUNTED
        of_entity[name_and_source] = before + count if is_counted else max(before, count)
    return {entity: sum(names.values()) for entity, names in seen.items()}


def _named(
    index: NameIndex,
    ranked: Sequence[tuple[float, float, int]],
    strongest: Mapping[int, tuple[float, Hit]],
    n: int,
) -> tuple[Candidate, ...]:
    """The first n with what people read, ties by identifier."""
    identifiers = index.identifiers([entity for _, _, entity in ranked])
    named = sorted(
        [
            (prior, popular, len(name), name, entity)
            for (prior, popular, entity), name in zip(ranked, identifiers, strict=True)
        ]
    )[:n]
    hits = [strongest[row[4]][1] for row in named]
    names = index.names([hit.row for hit in hits])
    priors = [min(-row[0], 1.0) for row in named]
    return tuple(
        [
            Candidate(row[3], prior, prior, hit.reason(name))
            for row, prior, hit, name in zip(named, priors, hits, names, strict=True)
        ]
    )


def _with_ties(ranked: list[tuple[float, float, int]], n: int) -> list[tuple[float, float, int]]:
    """The first n and those that tie with the last of them."""
    end = min(n, len(ranked))
    while 0 < end < len(ranked) and ranked[end][:2] == ranked[end - 1][:2]:
        end += 1
    return ranked[:end]
