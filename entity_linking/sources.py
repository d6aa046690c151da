"""`FirstFound` and `Union`: several candidate sources as one; `AtLeast` and `NotDeprecated`: a part
of what one proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText
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
