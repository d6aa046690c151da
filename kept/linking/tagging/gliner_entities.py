"""GLiNER as a tagger: names of the types that its caller lists in words.

Zaratiana et al. 2024, "GLiNER: Generalist Model for Named Entity Recognition using Bidirectional
Transformer" (NAACL): a span and a type are scored by the likeness of their vectors, so that types
need no training. Every span that it gives `LEAST` or more is asked for, overlapping ones too: the
best that do not overlap are the spans, and the others' scores judge the names of a graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from entity_linking.detection import Span
from entity_linking.errors import LinkingError
from kept import hosts
from kept.errors import MissingExtraError
from kg_loaders import KnowledgeGraph
from kg_loaders.records import TextKind

LEAST, SURE = 0.05, 0.5
"""Scores from which a span is noted, and from which it is a name: GLiNER's own threshold."""
PERSON_TYPES = frozenset({"person", "human"})
"""Types whose spans have the kind of persons, PERSON, for which pronouns may stand."""
MOST_TYPES = 25
"""Types of a graph that are asked for: each is part of every text that GLiNER reads."""


class Gliner(Protocol):
    """What kept calls of `gliner.GLiNER`."""

    def inference(
        self, texts: list[str], labels: list[str], flat_ner: bool = True, threshold: float = 0.5
    ) -> list[list[dict[str, Any]]]:
        """For each text its spans: `start`, `end` in characters, `label` and `score`."""
        ...


@dataclass(frozen=True, slots=True)
class GlinerEntities:
    """The names of one text, and the score of every span by its ends."""

    spans: tuple[Span, ...]
    by_ends: Mapping[tuple[int, int], float]

    def score(self, start: int, end: int) -> float:
        """The best type's score; 0 where it is below `LEAST`."""
        return self.by_ends.get((start, end), 0.0)


class GlinerTagger:
    """A `SpanTagger` over `model`, a `gliner.GLiNER` or what answers as one; `types` in words."""

    def __init__(self, model: Gliner, types: Sequence[str], *, name: str = "gliner") -> None:
        self._types = tuple(dict.fromkeys(types))
        if not self._types or not all(each.strip() for each in self._types):
            raise LinkingError(f"GLiNER looks for {list(types)}; name one type or more, in words")
        self._model, self._name = model, name

    def __repr__(self) -> str:
        return f"GlinerTagger({self._name}, {', '.join(self._types)})"

    @classmethod
    def open(cls, name: str, types: Sequence[str]) -> GlinerTagger:
        """Return the tagger of a folder, or of a name on the hub where there is a network.

        Raises `MissingExtraError` without the package, `LinkingError` for what it cannot open.
        """
        try:
            from gliner import GLiNER
        except ImportError as error:
            raise MissingExtraError(
                "a tagger called gliner:NAME needs GLiNER: pip install gliner"
            ) from error
        try:
            model = GLiNER.from_pretrained(name, local_files_only=not hosts.has_network())
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise LinkingError(f"GLiNER cannot open {name}: {error}") from error
        return cls(model, types, name=name)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types, as they are named; that of persons is PERSON."""
        return tuple(dict.fromkeys(map(_kind, self._types)))

    def tag(self, texts: Sequence[str]) -> list[GlinerEntities]:
        """As `SpanTagger`; a text without words has no names."""
        if not texts:
            return []
        answers = self._model.inference(
            list(texts), list(self._types), flat_ner=False, threshold=LEAST
        )
        return [_entities(text, answer) for text, answer in zip(texts, answers, strict=True)]


def _entities(text: str, answer: Sequence[Mapping[str, Any]]) -> GlinerEntities:
    """The best spans that do not overlap, the longer of equals, and the score of each."""
    spans = [
        Span(int(each["start"]), int(each["end"]), _kind(str(each["label"])), _share(each["score"]))
        for each in answer
        if 0 <= int(each["start"]) < int(each["end"]) <= len(text)
    ]
    by_ends: dict[tuple[int, int], float] = {}
    for span in spans:
        ends = span.start, span.end
        by_ends[ends] = max(span.score, by_ends.get(ends, 0.0))
    apart: list[Span] = []
    for span in sorted(spans, key=lambda s: (-s.score, s.start - s.end, s.start, s.kind)):
        is_free = all(span.end <= one.start or one.end <= span.start for one in apart)
        if span.score >= SURE and is_free:
            apart.append(span)
    return GlinerEntities(tuple(sorted(apart)), by_ends)


def _kind(type_name: str) -> str:
    return "PERSON" if type_name.lower() in PERSON_TYPES else type_name


def _share(score: Any) -> float:
    """A score as a probability; halves of a number's bits may lead beyond 1."""
    return min(1.0, max(0.0, float(score)))


def types_in_words(graph: KnowledgeGraph, most: int = MOST_TYPES) -> tuple[str, ...]:
    """Return the labels of the types that most entities of `graph` have, the most frequent first.

    >>> from kept import atlas
    >>> types_in_words(atlas.graph(), 2)
    ('city', 'human')
    """
    texts = graph.entity_texts
    kinds = texts.kinds == TextKind.TYPE
    counts = Counter(texts.values.filter(kinds).to_pylist())
    rows = {name: graph.entities.find(name) for name in counts}
    labels: Counter[str] = Counter()
    for name, n in counts.items():
        row = rows[name]
        labels[name if row is None else graph.label(row)] += n
    return tuple(label for label, _ in sorted(labels.items(), key=lambda e: (-e[1], e[0]))[:most])
