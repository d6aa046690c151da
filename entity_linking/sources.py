"""`FirstFound` and `Union`: several candidate sources as one; `AtLeast` and `NotDeprecated`: a part
of what one proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from entity_linking.errors import LinkingError
from entity_linking.mentions import Candidate, LinkedText
from entity_linking.parts import Candidates, CandidateSource
from kg_loaders import KnowledgeGraph
from kg_loaders.counting import counted


class FirstFound:
    """For each link the candidates of the first source that has any.

    A source is asked only about the links that the ones before it left empty, and not at all when
    there are none; it sees the texts that have such links, with those alone. So the first source
    sees every mention, and one that reads other mentions should come first.
    """

    def __init__(self, sources: Sequence[CandidateSource]) -> None:
        self._sources = _some(sources)

    def __repr__(self) -> str:
        return f"FirstFound([{', '.join(map(repr, self._sources))}])"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, as its source ordered them."""
        proposals: list[list[Candidates]] = [[()] * len(text.links) for text in texts]
        first, *others = self._sources
        with_links = [row for row, text in enumerate(texts) if text.links]
        if not with_links:
            return proposals
        of_first = first.candidates([texts[row] for row in with_links])
        for row, of_text in zip(with_links, of_first, strict=True):
            proposals[row] = list(of_text)
        if all(map(all, proposals)):
            return proposals
        for source in others:
            empty = [
                (row, places)
                for row, links in enumerate(proposals)
                if (places := [i for i, candidates in enumerate(links) if not candidates])
            ]
            if not empty:
                break
            texts_left = [_with_links(texts[row], places) for row, places in empty]
            for (row, places), answers in zip(empty, source.candidates(texts_left), strict=True):
                for i, candidates in zip(places, answers, strict=True):
                    proposals[row][i] = candidates
        return proposals


class Union:
    """The candidates of all sources; of an entity named by several, the best prior.

    The candidate keeps the score that came with that prior (of equal priors the earlier source's),
    and the reasons of all sources in their order, each once, joined by "; ". Candidates are sorted
    by prior; ties keep the order in which the sources, in turn, name them.

    Priors are compared as they are. Every source means p(entity | surface), but each only over what
    it knows: a dictionary's sum to 1 however few bear the name, a fuzzy source's to the similarity
    of the best name, a dense one's to what its softmax was given. A scorer that has to choose
    between them should read more than the prior. Texts without links are passed to no source.
    """

    def __init__(self, sources: Sequence[CandidateSource], *, max_candidates: int = 30) -> None:
        if max_candidates < 1:
            raise LinkingError(f"max_candidates is {max_candidates}; give 1 or more")
        self._sources, self._max_candidates = _some(sources), max_candidates

    def __repr__(self) -> str:
        return f"Union([{', '.join(map(repr, self._sources))}])"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text at most `max_candidates`."""
        with_links = [text for text in texts if text.links]
        answers = [source.candidates(with_links) for source in self._sources] if with_links else []
        joined = iter(
            [
                [self._join(candidates) for candidates in zip(*of_text, strict=True)]
                for of_text in zip(*answers, strict=True)
            ]
        )
        return [next(joined) if text.links else [] for text in texts]

    def _join(self, answers: Sequence[Candidates]) -> Candidates:
        best: dict[str, Candidate] = {}
        reasons: dict[str, dict[str, None]] = {}
        for candidate in (candidate for answer in answers for candidate in answer):
            known = best.setdefault(candidate.entity, candidate)
            if candidate.prior > known.prior:
                best[candidate.entity] = candidate
            if candidate.reason:
                reasons.setdefault(candidate.entity, {})[candidate.reason] = None
        ranked = sorted(best.values(), key=lambda candidate: -candidate.prior)
        return tuple(
            structs.replace(candidate, reason="; ".join(reasons.get(candidate.entity, ())))
            for candidate in ranked[: self._max_candidates]
        )


class AtLeast:
    """The candidates of a source whose prior is not below a bound."""

    def __init__(self, source: CandidateSource, min_prior: float) -> None:
        self._source, self._min_prior = source, min_prior

    def __repr__(self) -> str:
        return f"AtLeast({self._source!r}, {self._min_prior})"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text those candidates, in the order of the source."""
        return [
            [tuple(c for c in candidates if c.prior >= self._min_prior) for candidates in of_text]
            for of_text in self._source.candidates(texts)
        ]


def _with_links(text: LinkedText, places: Sequence[int]) -> LinkedText:
    if len(places) == len(text.links):
        return text
    return replace(text, links=tuple(text.links[i] for i in places))


def _some(sources: Sequence[CandidateSource]) -> tuple[CandidateSource, ...]:
    if not sources:
        raise LinkingError("there is no source to ask; give one or more")
    return tuple(sources)


class NotDeprecated:
    """The candidates of a source without those that their graph calls deprecated or obsolete.

    The priors of the others stay as they are.
    """

    def __init__(self, source: CandidateSource, graph: KnowledgeGraph) -> None:
        self._source = source
        nodes = graph.entity_texts.deprecated().tolist()
        self._deprecated = frozenset(graph.entities.name(node) for node in nodes)

    def __repr__(self) -> str:
        return f"NotDeprecated({self._source!r}, {counted(len(self._deprecated), 'entities')})"

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """For each link of each text its candidates, as the source ordered them."""
        proposals = self._source.candidates(texts)
        if not self._deprecated:
            return proposals
        return [
            [tuple(c for c in link if c.entity not in self._deprecated) for link in links]
            for links in proposals
        ]
