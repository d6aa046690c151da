"""`NamesAndTagger`: the spans of a tagger and the names of a graph as one list of mentions."""

from __future__ import annotations

from collections.abc import Sequence

from entity_linking.detection.found import DetectedText, Span, SpanTagger, Tagged
from entity_linking.errors import LinkingError
from entity_linking.mentions import Link, LinkedText, Linker, Mention


class NamesAndTagger:
    """A `Detector`: every span that either finds, scored by the tagger; spans may overlap.

    Which of overlapping spans stays is decided when they have been linked (`EndToEnd`). A name of
    the graph that the tagger gives less than `least` is not a mention: a common word, or a part of
    a longer name.

    >>> from entity_linking.mentions import LinkedText
    >>> class Names:
    ...     def link(self, texts):
    ...         return [LinkedText(text, (Link(Mention(0, 2), (), None, 1.0),)) for text in texts]
    >>> class Words:
    ...     spans = (Span(0, 7, "LOC", 0.9),)
    ...     def score(self, start, end):
    ...         return 0.2
    >>> class Tagger:
    ...     kinds = ("LOC",)
    ...     def tag(self, texts):
    ...         return [Words() for _ in texts]
    >>> found = NamesAndTagger(Names(), Tagger()).detect(["Ulm Mitte"])[0]
    >>> found.scores, found.kinds
    ((0.2, 0.9), ('', 'LOC'))
    """

    def __init__(self, names: Linker, tagger: SpanTagger, *, least: float = 0.05) -> None:
        if not 0 <= least <= 1:
            raise LinkingError(f"least is {least}; it is a probability, give 0 to 1")
        self._names, self._tagger, self._least = names, tagger, least

    def __repr__(self) -> str:
        return f"NamesAndTagger({self._tagger!r}, least={self._least})"

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """As `Detector`; sorted by start, the shorter of spans that begin together first."""
        named = self._names.link(texts)
        return [
            self._joined(text, spans, tagged)
            for text, spans, tagged in zip(texts, named, self._tagger.tag(texts), strict=True)
        ]

    def _joined(self, text: str, named: LinkedText, tagged: Tagged) -> DetectedText:
        spans = {(span.start, span.end): span for span in tagged.spans}
        for link in named.links:
            key = link.mention.start, link.mention.end
            if key not in spans and (score := tagged.score(*key)) >= self._least:
                spans[key] = Span(*key, "", score)
        ordered = [spans[key] for key in sorted(spans)]
        links = tuple(Link(Mention(s.start, s.end), (), None, 1.0) for s in ordered)
        return DetectedText(
            LinkedText(text, links),
            tuple(span.score for span in ordered),
            tuple(span.kind for span in ordered),
        )
