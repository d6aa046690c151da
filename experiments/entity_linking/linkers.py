"""The linkers that are compared: one pool of candidates, several ways to choose among them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from msgspec import structs

from entity_linking.decision import Decision
from entity_linking.mentions import Candidate, Link, LinkedText
from entity_linking.parts import Candidates, CandidateSource, Scorer, Scores
from entity_linking.scorers.candidate_rows import CandidateRows
from entity_linking.scorers.features import PopularityScorer, TypeScorer
from entity_linking.scorers.mix import default_scorers
from experiments.entity_linking.inputs.texts import uniform_value
from kept.tasks.datasets.public_files import table
from kg_loaders import KnowledgeGraph

KINDS = ("P31", "P106")
"""Relations whose tails say what kind of thing the head is."""


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


class GivenScores:
    """A `Scorer` that keeps the scores that the candidates bear."""

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`."""
        return [
            [np.array([c.score for c in link.candidates], np.float64) for link in text.links]
            for text in texts
        ]


def with_links(text: LinkedText, links: Iterable[Link]) -> LinkedText:
    """Return the text with other links."""
    return replace(text, links=tuple(links))


def decided(
    texts: Sequence[LinkedText], decision: Decision, scorer: Scorer | None = None
) -> list[LinkedText]:
    """Return a decision's choices by a scorer, or by the scores that the candidates bear."""
    linked = []
    scores = (scorer or GivenScores()).scores(texts)
    for text, of_text in zip(texts, scores, strict=True):
        pairs = zip(text.links, of_text, strict=True)
        links = (decision.decide(link.mention, link.candidates, score) for link, score in pairs)
        linked.append(with_links(text, links))
    return linked


def scored(texts: Sequence[LinkedText], scorer: Scorer, most: int) -> list[LinkedText]:
    """Return the `most` best candidates of each link in order, with scores; none is refused."""
    return [
        with_links(text, (replace(link, candidates=link.candidates[:most]) for link in text.links))
        for text in decided(texts, Decision(), scorer)
    ]


def forced(texts: Sequence[LinkedText]) -> list[LinkedText]:
    """Return the best candidate of every mention, nothing refused."""
    return [with_links(text, map(_best, text.links)) for text in texts]


def _best(link: Link) -> Link:
    entity = link.candidates[0].entity if link.candidates else None
    return Link(link.mention, link.candidates, entity, 1.0)


def hide(texts: Sequence[LinkedText], share: float, *, seed: int) -> list[LinkedText]:
    """Return texts with gold and candidates, of which a share of the links loses gold in both.

    So a linker learns to say NIL of a thing that has a name like others but is not in the graph.
    """
    return [
        with_links(text, (_hidden(text, link, share, seed) for link in text.links))
        for text in texts
    ]


def _hidden(text: LinkedText, link: Link, share: float, seed: int) -> Link:
    if link.entity is None or uniform_value(seed, f"{link.mention} {text.text}") >= share:
        return link
    others = tuple(c for c in link.candidates if c.entity != link.entity)
    return Link(link.mention, others, None, 1.0)


def links_by_entity(surfaces: Sequence[tuple[str, str, int]]) -> Mapping[str, float]:
    """How often each entity was linked in the counted text."""
    counts: Counter[str] = Counter()
    for _, entity, count in surfaces:
        counts[entity] += count
    return {entity: float(count) for entity, count in sorted(counts.items())}


def plain_scorers(
    graph: KnowledgeGraph, surfaces: Sequence[tuple[str, str, int]]
) -> dict[str, Scorer]:
    """Return what every re-ranker reads: no walks and no vectors."""
    return {
        **default_scorers(graph),
        "links": PopularityScorer(graph, links_by_entity(surfaces)),
        "age": AgeScorer(),
        "type": TypeScorer(graph, [kind for kind in KINDS if kind in graph.relations]),
    }


def with_candidates(texts: Sequence[LinkedText], source: CandidateSource) -> list[LinkedText]:
    """Return the texts with a source's candidates and no choice."""
    proposed = []
    for text, proposals in zip(texts, source.candidates(texts), strict=True):
        pairs = zip(text.links, proposals, strict=True)
        links = (Link(link.mention, candidates, None, 1.0) for link, candidates in pairs)
        proposed.append(with_links(text, links))
    return proposed


def without_refused(texts: Sequence[LinkedText]) -> list[LinkedText]:
    """Return the links alone, nothing that is NIL."""
    return [
        with_links(text, (link for link in text.links if link.entity is not None)) for text in texts
    ]


# ---- the dictionary to beat ------------------------------------------------
SurfaceCounts = dict[str, Counter[str]]


def read_surface_counts(root: Path) -> SurfaceCounts:
    """Return lower-cased surfaces with their entities and how often T-REx writes these so.

    Every label and alias is an entry with count 0, `el/mention_prior_trex.tsv.gz` adds its counts.
    Entities with equal counts stand in the order of the files (labels, aliases, T-REx).
    """
    counts: SurfaceCounts = {}
    for file, column in (("qid_labels", "label"), ("qid_aliases", "alias")):
        for row in table(root / "wikidata_labels" / f"{file}.tsv"):
            counts.setdefault(row[column].lower(), Counter())[row["qid"]] += 0
    for row in table(root / "el" / "mention_prior_trex.tsv"):
        counts.setdefault(row["surface"].lower(), Counter())[row["qid"]] += int(row["count"])
    return counts


class LowerCasedNames:
    """A `CandidateSource`: every entity of the lower-cased surface, the most frequent first.

    p(entity | surface) ~ how often T-REx writes the entity so
    """

    def __init__(self, counts: SurfaceCounts) -> None:
        self._counts = counts

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """As `CandidateSource`."""
        return [
            [self._of(text.text[link.start : link.end].lower()) for link in text.links]
            for text in texts
        ]

    def _of(self, surface: str) -> Candidates:
        counts = self._counts.get(surface, Counter())
        total = sum(counts.values()) or 1
        return tuple(Candidate(e, n / total, float(n)) for e, n in counts.most_common())
