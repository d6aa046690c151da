"""Documents in AIDA's form with marks, and scores of spans as E-BERT's release has them.

A line is a word, or `MMSTART http://.../Entity` and `MMEND` around the words of a mention,
`DOCSTART_n` and `DOCEND` around a document, `*NL*` at the end of a paragraph (Hoffart et al. 2011;
the form of NPoe/ebert). Not read: the release's splitting of long documents, which loses a mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from entity_linking.annotations.linked_texts import gold_link
from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText

DOCUMENT, PARAGRAPH = "DOCSTART", "*NL*"


@dataclass(frozen=True, slots=True)
class WordSpan:
    """An entity and its first and last word (inclusive)."""

    entity: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AidaText:
    """The words of a document or paragraph and the spans in it; `position` counts both from 0."""

    position: tuple[int, int]
    words: tuple[str, ...]
    spans: tuple[WordSpan, ...]

    @property
    def linked(self) -> LinkedText:
        """The words with a blank between them, and the spans as links."""
        starts, length = [], 0
        for word in self.words:
            starts.append(length)
            length += len(word) + 1
        links = tuple(
            gold_link(starts[s.first], starts[s.last] + len(self.words[s.last]), s.entity)
            for s in self.spans
        )
        return LinkedText(" ".join(self.words), links, "-".join(map(str, self.position)))


def read_aida(
    lines: Sequence[str], unit: Literal["document", "paragraph"] = "document"
) -> Iterator[AidaText]:
    """Yield every document, or paragraph; raises `LinkingError` for a mention without an end.

    >>> text, = read_aida(["DOCSTART_0", "MMSTART http://x/Quin_(poet)", "Quin", "MMEND", "DOCEND"])
    >>> text.words, text.spans
    (('Quin',), (WordSpan(entity='Quin_(poet)', first=0, last=0),))
    """
    document, paragraph = -1, 0
    words: list[str] = []
    spans: list[WordSpan] = []
    opened: tuple[str, int] | None = None
    for number, line in enumerate(lines, 1):
        ends = line == "DOCEND" or (line == PARAGRAPH and unit == "paragraph")
        if ends and opened is not None:
            raise LinkingError(f"line {number}: the mention of {opened[0]!r} has no MMEND")
        if ends:
            if words:
                yield AidaText((document, paragraph), tuple(words), tuple(spans))
            words, spans, paragraph = [], [], paragraph + 1
        elif line.startswith(DOCUMENT):
            document, paragraph, words, spans = document + 1, 0, [], []
        elif line.startswith("MMSTART "):
            opened = line.rsplit("/", 1)[-1].split()[-1], len(words)
        elif line == "MMEND":
            if opened is None or opened[1] == len(words):
                raise LinkingError(f"line {number}: MMEND without a mention")
            spans.append(WordSpan(opened[0], opened[1], len(words) - 1))
            opened = None
        elif line and line != PARAGRAPH:
            words.append(line)


def span_lines(texts: Sequence[AidaText]) -> list[str]:
    """First word, last word, entity and surface of every span, TAB between, over all words."""
    lines, before = [], 0
    for text in texts:
        for span in text.spans:
            surface = " ".join(text.words[span.first : span.last + 1])
            lines.append(f"{before + span.first}\t{before + span.last}\t{span.entity}\t{surface}")
        before += len(text.words)
    return lines


Span = tuple[object, ...]
"""A position and, last, an entity; equal ones are one span."""
Scores = tuple[float, float, float]
"""Precision, recall, F1."""


def scores_of(n_right: int, n_predicted: int, n_gold: int) -> Scores:
    """Precision is 1 where nothing is predicted, recall 1 where there is nothing to find."""
    precision = n_right / n_predicted if n_predicted else 1.0
    recall = n_right / n_gold if n_gold else 1.0
    return precision, recall, harmonic(precision, recall)


def harmonic(precision: float, recall: float) -> float:
    """The F1 of a precision and a recall."""
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


def micro(gold: Sequence[Span], predicted: Sequence[Span]) -> Scores:
    """Over all spans.

    >>> micro([(0, 1, "a"), (3, 4, "b")], [(0, 1, "a")])
    (1.0, 0.5, 0.6666666666666666)
    """
    every, links = set(gold), set(predicted)
    return scores_of(len(every & links), len(links), len(every))


def macro(gold: Sequence[Span], predicted: Sequence[Span]) -> Scores:
    """The mean over entities, gold or predicted, of precision and of recall; F1 is that of both."""
    names = sorted({str(span[-1]) for span in (*gold, *predicted)})
    if not names:
        return 1.0, 1.0, 1.0
    each = [
        micro([s for s in gold if s[-1] == name], [s for s in predicted if s[-1] == name])
        for name in names
    ]
    precision, recall = (sum(scores[i] for scores in each) / len(each) for i in (0, 1))
    return precision, recall, harmonic(precision, recall)
