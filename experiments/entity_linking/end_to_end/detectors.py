"""Detectors whose mentions are sure: those of a linker, without or with a tagger's kinds."""

from __future__ import annotations

from collections.abc import Sequence

from entity_linking.detection import DetectedText, SpanTagger
from entity_linking.mentions import Linker


class ConstantConfidence:
    """A `Detector`: the mentions of a linker, each with probability 1."""

    def __init__(self, linker: Linker) -> None:
        self._linker = linker

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """As `Detector`."""
        return [
            DetectedText(linked, (1.0,) * len(linked.links), ("",) * len(linked.links))
            for linked in self._linker.link(texts)
        ]


class SureWithKinds:
    """A `Detector`: the mentions of a linker, each with probability 1 and the kind of a tagger."""

    def __init__(self, linker: Linker, tagger: SpanTagger) -> None:
        self._linker, self._tagger = linker, tagger

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """As `Detector`."""
        found = []
        for linked, tagged in zip(self._linker.link(texts), self._tagger.tag(texts), strict=True):
            kinds = {(span.start, span.end): span.kind for span in tagged.spans}
            places = ((link.mention.start, link.mention.end) for link in linked.links)
            own = tuple(kinds.get(place, "") for place in places)
            found.append(DetectedText(linked, (1.0,) * len(own), own))
        return found
