"""A detector whose mentions are sure: those of a linker, with or without a tagger's kinds."""

from __future__ import annotations

from collections.abc import Sequence

from entity_linking.detection import DetectedText, SpanTagger
from entity_linking.mentions import Linker


class SureMentions:
    """A `Detector`: a linker's mentions, each with probability 1 and the kind by `tagger`."""

    def __init__(self, linker: Linker, tagger: SpanTagger | None = None) -> None:
        self._linker, self._tagger = linker, tagger

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """As `Detector`."""
        detected = []
        tagged = [()] * len(texts) if self._tagger is None else [
            text.spans for text in self._tagger.tag(texts)
        ]  # fmt: skip
        for linked, spans in zip(self._linker.link(texts), tagged, strict=True):
            kinds = {(span.start, span.end): span.kind for span in spans}
            kinds_of_links = tuple(kinds.get((link.start, link.end), "") for link in linked.links)
            detected.append(DetectedText(linked, (1.0,) * len(kinds_of_links), kinds_of_links))
        return detected
