"""`EndToEnd`: a linker whose mentions are found with probabilities, and kept by those of links.

    confidence of a link    p(span is a mention) p(entity | mention), calibrated
    confidence of NIL       p(span is a mention) p(NIL | mention)

Of overlapping mentions the most confident one stays (of equals the longer), whatever it is linked
to. A mention that is neither linked nor surely enough NIL (`Decision.nil_from`) is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from entity_linking.decision import Decision
from entity_linking.detection.descriptions import descriptions, is_anaphor
from entity_linking.detection.found import DetectedText, Detector
from entity_linking.detection.pronouns import PERSONS, SHARE, pronouns
from entity_linking.mentions import Link, LinkedText, Mention, require_texts
from entity_linking.parts import Scorer
from entity_linking.pipeline import TEXTS_PER_STEP, Pipeline


class EndToEnd:
    """A `Disambiguator`: mentions from `detector`, everything else by `pipeline`.

    With `pronouns` "he", "it" and "the town" are linked to what the name that they stand for is
    linked to (`detection.pronouns`, `detection.descriptions`); the detector then has to know
    persons by kind.
    """

    def __init__(self, detector: Detector, pipeline: Pipeline, *, pronouns: bool = False) -> None:
        self._detector, self._pipeline, self._pronouns = detector, pipeline, pronouns

    def __repr__(self) -> str:
        return f"EndToEnd({self._detector!r}, {self._pipeline!r}, pronouns={self._pronouns})"

    @property
    def detector(self) -> Detector:
        return self._detector

    @property
    def pipeline(self) -> Pipeline:
        return self._pipeline

    @property
    def scorer(self) -> Scorer:
        return self._pipeline.scorer

    @property
    def decision(self) -> Decision:
        return self._pipeline.decision

    def over(self, pipeline: Pipeline) -> EndToEnd:
        """The same detector over another pipeline."""
        return EndToEnd(self._detector, pipeline, pronouns=self._pronouns)

    def link(self, texts: Sequence[str]) -> list[LinkedText]:
        """One `LinkedText` a text, in order; mentions do not overlap."""
        require_texts(texts)
        linked: list[LinkedText] = []
        for start in range(0, len(texts), TEXTS_PER_STEP):
            detected = self._detector.detect(texts[start : start + TEXTS_PER_STEP])
            linked += map(self._kept, detected, self.decide(detected))
        return linked

    def disambiguate(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """The mentions of `texts`, taken as they are, linked anew; pronouns among them too."""
        linked = self._pipeline.disambiguate(texts)
        if not self._pronouns:
            return linked
        detected = self._detector.detect([text.text for text in texts])
        return list(map(_with_pronouns, detected, linked))

    def propose(self, texts: Sequence[LinkedText]) -> list[LinkedText]:
        """As `Pipeline.propose`."""
        return self._pipeline.propose(texts)

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """The possible mentions of each text."""
        return self._detector.detect(texts)

    def decide(self, detected: Sequence[DetectedText]) -> list[LinkedText]:
        """Every possible mention with its choice; they still overlap."""
        proposed = self._pipeline.propose([each.linked for each in detected])
        return self._pipeline.decide(proposed, [each.scores for each in detected])

    def _kept(self, detected: DetectedText, linked: LinkedText) -> LinkedText:
        stay = apart(list(filter(self.decision.says, linked.links)))
        if self._pronouns:
            stay = sorted([*stay, *_of_names(detected, linked, stay)], key=lambda k: k.mention)
        return replace(linked, links=tuple(stay))


def apart(links: Sequence[Link]) -> list[Link]:
    """The most confident links that do not overlap, the longer of equals, in order."""
    return first_apart(sorted(links, key=_rank))


def first_apart(ranked: Iterable[Link]) -> list[Link]:
    """The first links that do not overlap one before them, in order of the text."""
    kept: list[Link] = []
    for link in ranked:
        span = link.mention
        if not any(k.mention.start < span.end and span.start < k.mention.end for k in kept):
            kept.append(link)
    return sorted(kept, key=lambda link: link.mention)


def _rank(link: Link) -> tuple[float, int, int]:
    length = link.mention.end - link.mention.start
    return -link.confidence, -length, link.mention.start


def _with_pronouns(detected: DetectedText, linked: LinkedText) -> LinkedText:
    """Given mentions that are pronouns take over the link of their name, given or found."""
    names = [
        k for k in linked.links if not is_anaphor(linked.text[k.mention.start : k.mention.end])
    ]
    link_of = {link.mention: link for link in _of_names(detected, linked, names)}
    return replace(linked, links=tuple(link_of.get(link.mention, link) for link in linked.links))


def _of_names(detected: DetectedText, linked: LinkedText, named: Sequence[Link]) -> list[Link]:
    """The pronouns of the text with the surest link of `named` of the name that they stand for.

    What is named but was not found ("woman") is nobody's name, so that "she" is somebody else.
    """
    kinds = {k.mention: kind for k, kind in zip(detected.linked.links, detected.kinds, strict=True)}
    spans = [(link.mention.start, link.mention.end) for link in named]
    links = []
    said_kinds = [kinds.get(link.mention) for link in named]
    are_persons = [None if kind == "" else kind in PERSONS for kind in said_kinds]
    anaphors = [how(linked.text, spans, are_persons) for how in (pronouns, descriptions)]
    for start, end, places in sorted(chain.from_iterable(anaphors)):
        surest = max(
            (named[each] for each in places), key=lambda k: (k.entity is not None, k.confidence)
        )
        confidence = SHARE * surest.confidence
        links.append(Link(Mention(start, end), surest.candidates, surest.entity, confidence))
    return links
