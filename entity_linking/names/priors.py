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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from entity_linking.dictionary import raised_forms
from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate
from entity_linking.names.index import Entry, NameIndex
from entity_linking.names.segment import Source
from entity_linking.names.variants import KIND_WEIGHTS, SAID, Kind, name_variants
from entity_linking.surfaces import normalise

SOURCE_WEIGHTS = {Source.LABEL: 1.0, Source.ALIAS: 0.5, Source.COUNTED: 0.5}
WRITTEN, RAISED, OTHER = 0, 1, 2
LEVEL_WEIGHTS = (1.0, 0.9, KIND_WEIGHTS[Kind.CASE])
_SOURCE_WORDS = {Source.LABEL: "label", Source.ALIAS: "alias", Source.COUNTED: "seen linked as"}


@dataclass(frozen=True, slots=True)
class PriorFormula:
    """The numbers of the formula above: `alpha` and `m`."""

    alpha: float = 0.5
    m: float = 10.0

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.m <= 0:
            raise LinkingError(f"{self} needs alpha of 0 or more and m above 0")


class Hit(NamedTuple):
    """An entry that a surface leads to; `weight` is that of the rules between them."""

    entry: Entry
    weight: float
    kind: Kind

    def reason(self) -> str:
        """For people: how the surface leads to the entity."""
        name = f"{_SOURCE_WORDS[self.entry.source]} {self.entry.name!r}"
        own = SAID[self.entry.kind]
        return (SAID[self.kind] + own if self.kind is not self.entry.kind else own) + name


def levels(surface: str, entries: Iterable[Entry]) -> list[int]:
    """How the case of `surface` stands to each entry of its key.

    0: written just so. 1: raised (first letter, all words, all capitals; see `DictionaryLinker`).
    2: anything else. Only the case can differ, since the folded keys are equal.
    """
    own, folded = _squeezed(surface, fold=False), _squeezed(surface, fold=True)
    found = []
    for entry in entries:
        if entry.kind is Kind.ACRONYM:
            found.append(WRITTEN if sum(map(str.isupper, own)) > 1 else OTHER)
        elif entry.kind is Kind.EXACT:
            found.append(_level(own, entry.name))
        else:
            forms = [form for form, kind in name_variants(entry.name) if kind is entry.kind]
            same = [form for form in forms if _squeezed(form, fold=True) == folded]
            found.append(min((_level(own, form) for form in same), default=OTHER))
    return found


def _level(own: str, written: str) -> int:
    form = " ".join(normalise(written, fold=False)[0].split())
    if form.replace(" ", "") == own:
        return WRITTEN
    return RAISED if own in {way.replace(" ", "") for way in raised_forms(form)} else OTHER


def _squeezed(surface: str, *, fold: bool) -> str:
    return "".join(normalise(surface, fold=fold)[0].split())


def rank_entities(
    index: NameIndex, hits: Iterable[Hit], formula: PriorFormula, max_candidates: int
) -> tuple[Candidate, ...]:
    """The candidates that hits stand for, by the formula of this module; best prior first."""
    hits = list(hits)
    if len(hits) == 1 and hits[0].weight > 0:
        return (Candidate(index.entity(hits[0].entry.entity), 1.0, 1.0, hits[0].reason()),)
    best: dict[int, Hit] = {}
    for hit in hits:
        if hit.weight > 0 and (
            hit.entry.row not in best or best[hit.entry.row].weight < hit.weight
        ):
            best[hit.entry.row] = hit
    strongest: dict[int, tuple[float, Hit]] = {}
    seen: dict[int, dict[tuple[str, Source], float]] = {}
    for hit in best.values():
        entity, name, _, source, count, _ = hit.entry
        weight = hit.weight * SOURCE_WEIGHTS[source]
        if entity not in strongest or strongest[entity][0] < weight:
            strongest[entity] = weight, hit
        if count:
            of_entity, said = seen.setdefault(entity, {}), (name, source)
            before, count = of_entity.get(said, 0.0), count * hit.weight
            of_entity[said] = before + count if source is Source.COUNTED else max(before, count)
    n_links = {entity: sum(names.values()) for entity, names in seen.items()}
    popularity = {entity: float(index.popularity[entity]) for entity in strongest}
    guess = {
        entity: weight * (1.0 + popularity[entity]) ** formula.alpha
        for entity, (weight, _) in strongest.items()
    }
    guessed, linked = sum(guess.values()), sum(n_links.values())
    ranked = sorted(
        (
            -(n_links.get(entity, 0.0) + formula.m * guess[entity] / guessed)
            / (linked + formula.m),
            -popularity[entity],
            entity,
        )
        for entity in guess
    )
    ranked = _with_ties(ranked, max_candidates)
    named = sorted((*row[:2], len(name := index.entity(row[2])), name, row[2]) for row in ranked)
    return tuple(
        Candidate(name, min(-prior, 1.0), min(-prior, 1.0), strongest[entity][1].reason())
        for prior, _, _, name, entity in named[:max_candidates]
    )


def _with_ties(ranked: list[tuple[float, float, int]], n: int) -> list[tuple[float, float, int]]:
    """The first n and those that tie with the last of them."""
    end = min(n, len(ranked))
    while 0 < end < len(ranked) and ranked[end][:2] == ranked[end - 1][:2]:
        end += 1
    return ranked[:end]
