"""`Pipeline`: a linker from exchangeable parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, overload

from entity_linking.decision import Decision
from entity_linking.mentions import Link, LinkedText, Linker, Mention
from entity_linking.parts import Candidates, CandidateSource, Scorer, Scores
from entity_linking.scorers.features import PriorScorer

TEXTS_PER_STEP = 256
MOST_REMEMBERED = 16_384


class _Decided(NamedTuple):
    """What was decided for the very tuple `candidates` with these scores.

    `fixed` are the scores where nobody can write to them.
    """

    candidates: Candidates
    fixed: Scores | None
    scores: bytes
    link: Link

    @classmethod
    def of(cls, candidates: Candidates, scores: Scores, link: Link) -> _Decided:
        return cls(candidates, None if scores.flags.writeable else scores, scores.tobytes(), link)

    def is_for(self, candidates: Candidates, scores: Scores) -> bool:
        if self.candidates is not candidates:
            return False
        return self.fixed is scores or self.scores == scores.tobytes()


Likeness = Callable[[Sequence[LinkedText]], Sequence[Sequence[float]]]


class Pipeline:
    """Finds mentions by `mentions`, their entities by `source`, chooses by `scorer` and `decision`.

    `link` takes plain texts; `disambiguate` takes mentions from anywhere (gold spans, spaCy, the
    caller) and ignores what they are linked to. `likeness` gives for each link of each text how
    like its words are to the name that was read there; confidences are multiplied by it.
    """

    def __init__(
        self,
        mentions: Linker,
        source: CandidateSource,
        scorer: Scorer,
        decision: Decision = Decision(),  # noqa: B008 - frozen
        *,
        likeness: Likeness | None = None,
    ) -> None:
        self._likeness = likeness
        self._mentions, self._source = mentions, source
        self._scorer, self._decision = scorer, decision
        self._decided: dict[int, _Decided] = {}

    def __repr__(self) -> str:
        parts = (self._mentions, self._source, self._scorer, self._decision)
        return f"Pipeline({', '.join(map(repr, parts))})"

    @property
    def mentions(self) -> Linker:
        return self._mentions

    @property
    def scorer(self) -> Scorer:
        return self._scorer

    @property
    def decision(self) -> Decision:
        return self._decision

    @overload
    def link(self, texts: str) -> LinkedText: ...  # type: ignore[overload-overlap]

    @overload
    def link(self, texts: Sequence[str]) -> list[LinkedText]: ...

    def link(self, texts: str | Sequence[str]) -> LinkedText | list[LinkedText]:
        """Return a `LinkedText` for each text, in order; for one text, given as a string, its own.

        What is neither linked nor surely NIL is left out.
        """
        if isinstance(texts, str):
            return self.link([texts])[0]
        linked = [
            linked
            for start in range(0, len(texts), TEXTS_PER_STEP)
            for linked in self.disambiguate(
                self._mentions.link(texts[start : start + TEXTS_PER_STEP])
            )
        ]
        if self._decision.nil_from is None:
            return linked
        says = self._decision.says
        return [replace(text, links=tuple(filter(says, text.links))) for text in linked]

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The same mentions, with candidates, choice and confidence."""
        if self._likeness is not None or not isinstance(self._scorer, PriorScorer):
            return self.decide(self.propose(texts))
        scores = self._scorer.of_candidates  # they alone count: no links need to be made of them
        return [
            LinkedText(
                text.text,
                tuple(
                    [
                        self._decide(link.mention, candidates, scores(candidates), 1.0)
                        for link, candidates in zip(text.links, proposals, strict=True)
                    ]
                ),
                text.id,
                text.pair_start,
            )
            for text, proposals in zip(texts, self._source.candidates(texts), strict=True)
        ]

    def propose(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The same mentions with candidates, not yet linked (NIL)."""
        return [
            LinkedText(
                text.text,
                tuple(
                    Link(link.mention, candidates, None, 1.0)
                    for link, candidates in zip(text.links, proposals, strict=True)
                ),
                text.id,
                text.pair_start,
            )
            for text, proposals in zip(texts, self._source.candidates(texts), strict=True)
        ]

    def decide(
        self, texts: Sequence[LinkedText], spans: Sequence[Sequence[float]] | None = None
    ) -> list[LinkedText]:
        """The choices among the candidates that the links bear.

        `spans` are the probabilities that the links of each text are mentions; None: all are.
        """
        sure = [[1.0] * len(text.links) for text in texts] if spans is None else spans
        if self._likeness is not None:
            likeness = self._likeness(texts)
            sure = [
                [span * share for span, share in zip(*both, strict=True)]
                for both in zip(sure, likeness, strict=True)
            ]
        return [
            LinkedText(
                text.text,
                tuple(
                    [
                        self._decide(link.mention, link.candidates, of_link, span)
                        for link, of_link, span in zip(text.links, scores, sureness, strict=True)
                    ]
                ),
                text.id,
                text.pair_start,
            )
            for text, scores, sureness in zip(texts, self._scorer.scores(texts), sure, strict=True)
        ]

    def _decide(
        self, mention: Mention, candidates: Candidates, scores: Scores, span: float
    ) -> Link:
        """The decision; sources that remember surfaces hand out one tuple again and again."""
        if span != 1.0:
            return self._decision.decide(mention, candidates, scores, span)
        known = self._decided.get(id(candidates))
        if known is None or not known.is_for(candidates, scores):
            decided = self._decision.decide(mention, candidates, scores)
            if len(self._decided) >= MOST_REMEMBERED:
                self._decided.clear()
            known = self._decided[id(candidates)] = _Decided.of(candidates, scores, decided)
        same = known.link
        return Link(mention, same.candidates, same.entity, same.confidence)
