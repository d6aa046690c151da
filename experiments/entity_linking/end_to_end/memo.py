"""Parts of a linker that answer a text once: rows differ in their decisions, not in these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from entity_linking.detection import DetectedText
from entity_linking.detection.found import Detector
from entity_linking.mentions import LinkedText
from entity_linking.parts import Candidates, CandidateSource, Scorer, Scores

Key = tuple[Any, ...]
Text = TypeVar("Text")
Answer = TypeVar("Answer")


class OnceDetector:
    """A `Detector` that remembers."""

    def __init__(self, detector: Detector) -> None:
        self._detector, self._known = detector, dict[Key, DetectedText]()

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """As `Detector`."""
        return _once(self._known, texts, lambda text: (text,), self._detector.detect)


class OnceSource:
    """A `CandidateSource` that remembers."""

    def __init__(self, source: CandidateSource) -> None:
        self._source, self._known = source, dict[Key, list[Candidates]]()

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        """As `CandidateSource`."""
        return _once(self._known, texts, _mentions, self._source.candidates)


class OnceScorer:
    """A `Scorer` that remembers; what it scores depends on one text at a time."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer, self._known = scorer, dict[Key, list[Scores]]()

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        """As `Scorer`."""
        return _once(self._known, texts, _candidates, self._scorer.scores)


def _once(
    known: dict[Key, Answer],
    texts: Sequence[Text],
    key: Callable[[Text], Key],
    work: Callable[[Sequence[Text]], Sequence[Answer]],
) -> list[Answer]:
    keys = [key(text) for text in texts]
    new = {k: text for k, text in zip(keys, texts, strict=True) if k not in known}
    if new:
        known.update(zip(new, work(list(new.values())), strict=True))
    return [known[k] for k in keys]


def _mentions(text: LinkedText) -> Key:
    return (text.text, *(link.mention for link in text.links))


def _candidates(text: LinkedText) -> Key:
    return (
        *_mentions(text),
        hash(tuple(tuple(c.entity for c in k.candidates) for k in text.links)),
    )
