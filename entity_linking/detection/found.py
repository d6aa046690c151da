"""What detection says of a text: spans, how likely each is a mention, and of which kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """`text[start:end]` is a name of `kind` ("" where none is known) with probability `score`."""

    start: int
    end: int
    kind: str
    score: float


class Tagged(Protocol):
    """What a tagger makes of one text."""

    @property
    def spans(self) -> Sequence[Span]:
        """Its best spans, in order; they do not overlap."""
        ...

    def score(self, start: int, end: int) -> float:
        """How likely any other span is a name."""
        ...


class SpanTagger(Protocol):
    """Finds names in text without knowing a graph."""

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def tag(self, texts: Sequence[str]) -> Sequence[Tagged]:
        """One result a text, in order."""
        ...


@dataclass(frozen=True, slots=True)
class DetectedText:
    """A text with its possible mentions, which may overlap.

    `scores` and `kinds` stand beside the links of `linked`, in their order: the probability that a
    span is a mention, and its kind. What a link of `linked` is linked to is not read.
    """

    linked: LinkedText
    scores: tuple[float, ...]
    kinds: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.linked.links)
        if len(self.scores) != n or len(self.kinds) != n:
            raise LinkingError(
                f"{n} mentions have {len(self.scores)} scores and {len(self.kinds)} kinds"
            )


class Detector(Protocol):
    """Finds mentions and says how likely each is one."""

    def detect(self, texts: Sequence[str]) -> list[DetectedText]:
        """One `DetectedText` a text, in order."""
        ...
