"""`FuzzyIndex` and `FuzzyCandidates`: names spelled almost like a mention.

For what a dictionary misses: slips, transliterations, spacing, accents. Character n-grams find the
names to look at (`ngrams`); they are ranked by edits, swaps of neighbours being one (rapidfuzz).
Word order and short forms are not its business: "Obama, Barack" is far from "Barack Obama".

An index is a row of segments, each with its own names; adding entities adds a segment and touches
no other. Answers are those of an index built at once, except where the limits of the search bite
(`max_postings` is per segment). Dozens of small segments cost time: build anew then.

    manifest.json       format version, n-gram sizes; of every segment its folder, counts, the hash
                        of the graph it was made from, and of every file its size and SHA-256
    segment-0000/       see `entity_linking.fuzzy.ngrams`
    segment-0001/ ...
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from rapidfuzz.distance import OSA
from rapidfuzz.process import cdist

from entity_linking.errors import LinkingError
from entity_linking.fuzzy import folder as disk
from entity_linking.fuzzy.ngrams import (
    MAX_WEIGHT,
    Name,
    NameSegment,
    build_segment,
    form_of,
    gram_sets,
)
from entity_linking.mentions import Candidate, LinkedText
from entity_linking.parts import Candidates
from kg_loaders import KnowledgeGraph, TextKind
from kg_loaders.counting import counted
from kg_loaders.disk.arrow import numbers_array

NAMES_PER_SEGMENT = 1 << 20
FORMS_PER_STEP = 1024
MAX_POSTINGS = 16_384
NAMES_COMPARED = 100
SHARPNESS = 8


class NameMatch(NamedTuple):
    """A name as it was written, how like it is, and `(entity, weight)`s, the heaviest first."""

    surface: str
    similarity: float
    cosine: float
    bearers: tuple[tuple[str, int], ...]


class FuzzyIndex:
    """Names by their n-grams; immutable.

    `max_postings` bounds the names read for the rarest n-grams of a query, in each segment.

    >>> index = FuzzyIndex.build([Name("Q36153", "Beyoncé"), Name("Q90", "Paris")])
    >>> [(match.surface, round(match.similarity, 2)) for match in index.search(["beyonce"])[0]]
    [('Beyoncé', 0.86)]
    """

    def __init__(
        self, segments: Sequence[disk.StoredSegment], *, max_postings: int = MAX_POSTINGS
    ) -> None:
        if max_postings < 1:
            raise LinkingError(f"max_postings is {max_postings}; give 1 or more")
        self._stored, self._max_postings = tuple(segments), max_postings

    @classmethod
    def build(cls, names: Iterable[Name], *, graph_hash: str = "") -> Self:
        """Index `names` in segments of about a million; `graph_hash` says where they are from."""
        return cls(_segments(names, graph_hash))

    @classmethod
    def of_graph(
        cls,
        graph: KnowledgeGraph,
        languages: Sequence[str] | None = None,
        *,
        deprecated: bool = False,
    ) -> Self:
        """Index the labels and aliases of `graph`, as `names_of` weighs them."""
        names = names_of(graph, languages, deprecated=deprecated)
        return cls.build(names, graph_hash=graph.content_hash)

    def add(self, names: Iterable[Name], *, graph_hash: str = "") -> Self:
        """An index that knows `names` too; this one stays as it is."""
        added = _segments(names, graph_hash)
        return type(self)((*self._stored, *added), max_postings=self._max_postings)

    def __repr__(self) -> str:
        return (
            f"FuzzyIndex({counted(self.n_names, 'names')} in "
            f"{counted(len(self._stored), 'segments')})"
        )

    @property
    def n_names(self) -> int:
        """Distinct forms, counted in each segment for itself."""
        return sum(stored.segment.n_names for stored in self._stored)

    @property
    def graph_hashes(self) -> tuple[str, ...]:
        """Where each segment is from; empty where nobody said."""
        return tuple(stored.graph_hash for stored in self._stored)

    # ---- search ------------------------------------------------------------
    def search(
        self, surfaces: Sequence[str], *, k: int = 10, min_similarity: float = 0.7
    ) -> list[list[NameMatch]]:
        """For each surface at most `k` names that are like it, the most alike first.

        Ties go to the higher cosine, then to the form that sorts first. The `NAMES_COMPARED` names
        with the highest cosine are looked at.
        """
        if k < 1 or not 0.0 <= min_similarity <= 1.0:
            raise LinkingError(
                f"k is {k}, min_similarity {min_similarity}; give 1 or more, and 0 to 1"
            )
        forms = [form_of(surface) for surface in surfaces]
        distinct = [form for form in dict.fromkeys(forms) if form]
        matches: dict[str, list[NameMatch]] = {"": []}
        for start in range(0, len(distinct), FORMS_PER_STEP):
            step = distinct[start : start + FORMS_PER_STEP]
            for form, grams in zip(step, gram_sets(step), strict=True):
                places = self._nearest(grams)
                matches[form] = self._matches(form, places, k, min_similarity)
        return [list(matches[form]) for form in forms]

    def _nearest(self, grams: disk.Grams) -> list[tuple[float, NameSegment, int]]:
        """`(cosine, segment, name)` of the names to compare, over all segments."""
        places: list[tuple[float, NameSegment, int]] = []
        for stored in self._stored:
            names, cosines = stored.segment.nearest(grams, NAMES_COMPARED, self._max_postings)
            pairs = zip(cosines.tolist(), names.tolist(), strict=True)
            places.extend((cosine, stored.segment, name) for cosine, name in pairs)
        places.sort(key=lambda item: -item[0])
        return places[:NAMES_COMPARED]

    def _matches(
        self,
        form: str,
        places: Sequence[tuple[float, NameSegment, int]],
        k: int,
        min_similarity: float,
    ) -> list[NameMatch]:
        surfaces = [str(segment.surfaces[name].as_py()) for _, segment, name in places]
        others = [form_of(surface) for surface in surfaces]
        compared = cdist([form], others, scorer=OSA.normalized_similarity, dtype=np.float64)
        similarities = compared[0].tolist()
        alike: dict[str, list[int]] = defaultdict(list)  # a form may stand in several segments
        for i, (other, similarity) in enumerate(zip(others, similarities, strict=True)):
            if similarity >= min_similarity:
                alike[other].append(i)
        ranked = sorted(
            alike, key=lambda o: (-similarities[alike[o][0]], -places[alike[o][0]][0], o)
        )
        return [
            NameMatch(
                surfaces[rows[0]],
                similarities[rows[0]],
                places[rows[0]][0],
                _bearers([places[i][1:] for i in rows]),
            )
            for rows in map(alike.__getitem__, ranked[:k])
        ]

    # ---- disk --------------------------------------------------------------
    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> Self:
        """Map a saved index; `LinkIndexError` when it cannot be trusted.

        Sizes, types and shapes are always checked; `verify` reads every byte against its checksum.
        """
        return cls(disk.read(Path(folder), verify=verify))

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write the folder, all or nothing; `force` replaces an index that is there already."""
        disk.write(Path(folder), self._stored, force=force)

    @classmethod
    def add_to(cls, folder: str | Path, names: Iterable[Name], *, graph_hash: str = "") -> Self:
        """Add names to a saved index and open it; what is there is neither read nor rewritten.

        Readers that have it open go on with what they opened. Writers wait for each other.
        """
        disk.append(Path(folder), _segments(names, graph_hash))
        return cls.open(folder)


class FuzzyCandidates:
    """Proposes the bearers of the names that are spelled most like the mention.

    The share of an entity in a name's weights times `similarity ** 8` (`SHARPNESS`: one slip in
    seven letters leaves .29) is what it weighs, by its best name; the priors are the weights, made
    to sum to the similarity of the best name. The rest is the chance that no name is meant. So a
    name that differs in case only gets what a dictionary gives, and a slip gets less.
    Candidates are sorted by prior, ties go to the shorter identifier, then to the one that sorts
    first; `score` is the prior.
    """

    def __init__(
        self,
        index: FuzzyIndex,
        *,
        max_names: int = 10,
        max_candidates: int = 30,
        min_similarity: float = 0.7,
    ) -> None:
        for setting, count in (("max_names", max_names), ("max_candidates", max_candidates)):
            if count < 1:
                raise LinkingError(f"{setting} is {count}; give 1 or more")
        if not 0.0 < min_similarity <= 1.0:
            raise LinkingError(f"min_similarity is {min_similarity}; give more than 0, at most 1")
        self._index, self._max_names = index, max_names
        self._max_candidates, self._min_similarity = max_candidates, min_similarity

    def __repr__(self) -> str:
        return f"FuzzyCandidates({self._index!r}, min_similarity={self._min_similarity})"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, best first; it reads the mention alone."""
        mentions = []
        for text in texts:
            spans = [link.mention for link in text.links]
            mentions += [text.text[span.start : span.end] for span in spans]
        distinct = list(dict.fromkeys(mentions))
        matches = self._index.search(
            distinct, k=self._max_names, min_similarity=self._min_similarity
        )
        known = dict(zip(distinct, map(self._weigh, matches), strict=True))
        remaining = iter(mentions)
        return [[known[next(remaining)] for _ in text.links] for text in texts]

    def _weigh(self, matches: Sequence[NameMatch]) -> Candidates:
        weights: dict[str, tuple[float, NameMatch]] = {}
        for match in matches:
            total = sum(weight for _, weight in match.bearers)
            for entity, weight in match.bearers:
                share = weight / total * match.similarity**SHARPNESS
                if entity not in weights or share > weights[entity][0]:
                    weights[entity] = share, match
        total_share = sum(share for share, _ in weights.values())
        ranked = sorted(weights, key=lambda entity: (-weights[entity][0], len(entity), entity))
        proposed = []
        for entity in ranked[: self._max_candidates]:
            share, match = weights[entity]
            prior = min(matches[0].similarity * share / total_share, 1.0)
            proposed.append(Candidate(entity, prior, prior, reason_of(match)))
        return tuple(proposed)


def reason_of(match: NameMatch) -> str:
    """For people.

    >>> reason_of(NameMatch("Beyoncé", 6 / 7, 0.5, ()))
    "like 'Beyoncé' .86"
    """
    return f"like {match.surface!r} {match.similarity:.2f}".replace(" 0.", " .")


def names_of(
    graph: KnowledgeGraph, languages: Sequence[str] | None = None, *, deprecated: bool = False
) -> Iterator[Name]:
    """Labels and aliases, weighing 10 or 1 and their frequency.

    `languages` takes names in these languages and those without one; None takes all. Names of terms
    that their source calls deprecated are taken with `deprecated` only. Frequencies near 2**31 are
    cut to fit.
    """
    texts = graph.entity_texts
    kept = {"", *languages} if languages is not None else set(texts.language_names)
    accepted = np.array([name in kept for name in texts.language_names], np.bool_)
    kinds = np.asarray(texts.kinds)
    rows = np.flatnonzero((kinds == TextKind.LABEL) | (kinds == TextKind.ALIAS))
    rows = rows[accepted[np.asarray(texts.languages)[rows]]]
    owners = texts.nodes()
    if not deprecated and (marked := texts.deprecated()).size:
        rows = rows[~np.isin(owners[rows], marked)]
    for start in range(0, len(rows), NAMES_PER_SEGMENT):
        chunk = rows[start : start + NAMES_PER_SEGMENT]
        counts = np.asarray(texts.counts)[chunk].astype(np.int64)
        weights = np.minimum(counts + np.where(kinds[chunk] == TextKind.LABEL, 10, 1), MAX_WEIGHT)
        yield from map(
            Name,
            graph.entities.array.take(numbers_array(owners[chunk])).to_pylist(),
            texts.values.take(numbers_array(chunk)).to_pylist(),
            weights.tolist(),
        )


def _segments(names: Iterable[Name], graph_hash: str) -> list[disk.StoredSegment]:
    names, segments = iter(names), []
    while chunk := list(islice(names, NAMES_PER_SEGMENT)):
        segments.append(disk.StoredSegment(build_segment(chunk), graph_hash))
    return segments


def _bearers(places: Sequence[tuple[NameSegment, int]]) -> tuple[tuple[str, int], ...]:
    weights: dict[str, int] = {}
    for segment, name in places:
        for entity, weight in segment.bearers_of(name):
            weights[entity] = max(weights.get(entity, 0), weight)
    return tuple(sorted(weights.items(), key=lambda item: (-item[1], len(item[0]), item[0])))
