"""The linkers that are compared: one pool of candidates, several ways to choose among them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from msgspec import structs

from entity_linking.decision import Decision
from entity_linking.mentions import Link, LinkedText
from entity_linking.parts import Candidates, CandidateSource, Scorer, Scores
from entity_linking.scorers.candidate_rows import CandidateRows
from experiments.entity_linking.inputs.texts import drawn


class Pool:
    """A `CandidateSource`: what names propose, then what dense retrieval adds with prior 0.

    The prior of a candidate so stays what its names say.
    """

    def __init__(self, names: CandidateSource, dense: CandidateSource) -> None:
        self._names, self._dense = names, dense

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link those of the names, best prior first, then the others."""
        both = zip(self._names.candidates(texts), self._dense.candidates(texts), strict=True)
        return [[_joined(*pair) for pair in zip(*proposals, strict=True)] for proposals in both]


def _joined(named: Candidates, near: Candidates) -> Candidates:
    known = {candidate.entity for candidate in named}
    added = (structs.replace(c, prior=0.0) for c in near if c.entity not in known)
    return (*named, *added)


class AgeScorer:
    """`-log(number of the QID)`: Wikidata numbered what Wikipedias wrote most about first."""

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`; 0 for identifiers that are no QIDs."""
        rows = CandidateRows.of(texts)
        return rows.split(np.array([_age(entity) for entity in rows.entities], np.float64))


@cache
def _age(entity: str) -> float:
    return -math.log(int(entity[1:])) if entity[:1] == "Q" and entity[1:].isdigit() else 0.0


class Given:
    """A `Scorer` that keeps the scores that the candidates bear."""

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`."""
        return [
            [np.array([c.score for c in link.candidates], np.float64) for link in text.links]
            for text in texts
        ]


def scored(texts: Sequence[LinkedText], scorer: Scorer, most: int) -> list[LinkedText]:
    """The `most` best candidates of each link in order, bearing their scores; none is refused."""
    linked = []
    for text, scores in zip(texts, scorer.scores(texts), strict=True):
        links = [
            Decision().decide(link.mention, link.candidates, own)
            for link, own in zip(text.links, scores, strict=True)
        ]
        cut = (replace(link, candidates=link.candidates[:most]) for link in links)
        linked.append(replace(text, links=tuple(cut)))
    return linked


def forced(texts: Sequence[LinkedText]) -> list[LinkedText]:
    """The best candidate of every mention, nothing refused."""
    return [
        LinkedText(
            text.text,
            tuple(
                Link(k.mention, k.candidates, k.candidates[0].entity if k.candidates else None, 1.0)
                for k in text.links
            ),
            text.id,
        )
        for text in texts
    ]


def decided(texts: Sequence[LinkedText], decision: Decision) -> list[LinkedText]:
    """The choices of a decision over candidates that bear their scores."""
    scores = Given().scores(texts)
    return [
        replace(
            text,
            links=tuple(
                decision.decide(link.mention, link.candidates, s)
                for link, s in zip(text.links, own, strict=True)
            ),
        )
        for text, own in zip(texts, scores, strict=True)
    ]


def hide(texts: Sequence[LinkedText], share: float, *, seed: int) -> list[LinkedText]:
    """Texts whose links bear gold and candidates; a share of them loses gold on both sides.

    So a linker learns to say NIL of a thing that has a name like others but is not in the graph.
    """
    hidden = []
    for text in texts:
        links = []
        for link in text.links:
            if link.entity is not None and drawn(seed, f"{link.mention} {text.text}") < share:
                others = tuple(c for c in link.candidates if c.entity != link.entity)
                link = Link(link.mention, others, None, 1.0)
            links.append(link)
        hidden.append(replace(text, links=tuple(links)))
    return hidden


def links_by_entity(surfaces: Sequence[tuple[str, str, int]]) -> Mapping[str, float]:
    """How often each entity was linked in the counted text."""
    counts: Counter[str] = Counter()
    for _, entity, count in surfaces:
        counts[entity] += count
    return {entity: float(count) for entity, count in sorted(counts.items())}


def as_candidates(
    texts: Sequence[LinkedText], proposals: list[list[Candidates]]
) -> list[LinkedText]:
    """The texts with candidates and no choice."""
    return [
        replace(
            text,
            links=tuple(
                Link(link.mention, candidates, None, 1.0)
                for link, candidates in zip(text.links, own, strict=True)
            ),
        )
        for text, own in zip(texts, proposals, strict=True)
    ]
