"""The named entities of a spaCy pipeline as a tagger's spans.

spaCy says which spans are names, not how surely: each counts as `SURE`, judgement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entity_linking.detection import Span
from entity_linking.errors import LinkingError
from kept.errors import MissingExtraError

try:
    import spacy
    from spacy.language import Language
except ImportError as error:
    raise MissingExtraError(
        "a tagger called spacy:NAME needs spaCy: pip install 'kept[spacy]'"
    ) from error

SURE = 0.8
NUMBERS = frozenset({"CARDINAL", "DATE", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME"})
"""Kinds that are not names."""


@dataclass(frozen=True, slots=True)
class SpacyEntities:
    """The named entities of one text; any other span has the score 0."""

    spans: tuple[Span, ...]

    def score(self, start: int, end: int) -> float:
        """`SURE` for an entity, 0 for what is none."""
        return SURE if any((s.start, s.end) == (start, end) for s in self.spans) else 0.0


class SpacyTagger:
    """A `SpanTagger` over `nlp`, which has to set `doc.ents`; numbers and dates are left out.

    >>> nlp = spacy.blank("en")
    >>> nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Ann Lee"}])
    >>> SpacyTagger(nlp).tag(["Hello Ann Lee."])[0].spans
    (Span(start=6, end=13, kind='PERSON', score=0.8),)
    """

    def __init__(self, nlp: Language) -> None:
        finders = [name for name in nlp.pipe_names if name in ("ner", "entity_ruler", "span_ruler")]
        if not finders:
            raise LinkingError(
                f"the pipeline has {', '.join(nlp.pipe_names) or 'no parts'}, none of which finds "
                "named entities; give one with 'ner'"
            )
        self._nlp = nlp
        labels = {label for name in finders for label in nlp.pipe_labels[name]}
        self._kinds = tuple(sorted(labels - NUMBERS))

    def __repr__(self) -> str:
        return f"SpacyTagger({self._nlp.meta['lang']}_{self._nlp.meta['name']})"

    @classmethod
    def named(cls, name: str) -> SpacyTagger:
        """The installed pipeline of this name."""
        try:
            return cls(spacy.load(name))
        except OSError as error:
            raise LinkingError(
                f"spaCy has no pipeline {name!r} here: python -m spacy download {name}"
            ) from error

    @property
    def kinds(self) -> tuple[str, ...]:
        return self._kinds

    def tag(self, texts: Sequence[str]) -> list[SpacyEntities]:
        """As `SpanTagger`."""
        return [
            SpacyEntities(
                tuple(
                    Span(entity.start_char, entity.end_char, entity.label_, SURE)
                    for entity in doc.ents
                    if entity.label_ not in NUMBERS
                )
            )
            for doc in self._nlp.pipe(texts)
        ]
