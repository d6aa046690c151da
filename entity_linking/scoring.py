"""Scores of links against gold links; NIL counts as no link, on both sides.

Gold and predicted texts are paired by position and must be the same texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from entity_linking.errors import LinkingError
from entity_linking.mentions import LinkedText


@dataclass(frozen=True, slots=True)
class LinkScore:
    """Micro-averaged strong matching: same start, same end, same entity.

    A ratio with nothing below the line is 0.
    """

    n_gold: int
    n_predicted: int
    n_correct: int

    @property
    def precision(self) -> float:
        return self.n_correct / self.n_predicted if self.n_predicted else 0.0

    @property
    def recall(self) -> float:
        return self.n_correct / self.n_gold if self.n_gold else 0.0

    @property
    def f1(self) -> float:
        both = self.n_gold + self.n_predicted
        return 2 * self.n_correct / both if both else 0.0


@dataclass(frozen=True, slots=True)
class SpanScore:
    """On gold mentions that have an entity: right choices, and gold among the candidates."""

    n_gold: int
    n_correct: int
    n_in_candidates: int

    @property
    def accuracy(self) -> float:
        return self.n_correct / self.n_gold if self.n_gold else 0.0

    @property
    def candidate_recall(self) -> float:
        return self.n_in_candidates / self.n_gold if self.n_gold else 0.0


def score_links(gold: Sequence[LinkedText], predicted: Sequence[LinkedText]) -> LinkScore:
    """Precision, recall and F1 end to end."""
    n_gold = n_predicted = n_correct = 0
    for expected, found in _pairs(gold, predicted):
        right = {(link.mention, link.entity) for link in expected.links if link.entity}
        given = {(link.mention, link.entity) for link in found.links if link.entity}
        n_gold += len(right)
        n_predicted += len(given)
        n_correct += len(right & given)
    return LinkScore(n_gold, n_predicted, n_correct)


def score_spans(gold: Sequence[LinkedText], predicted: Sequence[LinkedText]) -> SpanScore:
    """Accuracy on gold spans; a gold mention that was not predicted counts as wrong."""
    n_gold = n_correct = n_in_candidates = 0
    for expected, found in _pairs(gold, predicted):
        given = {link.mention: link for link in found.links}
        for link in expected.links:
            if link.entity is None:
                continue
            n_gold += 1
            answer = given.get(link.mention)
            if answer is not None:
                n_correct += answer.entity == link.entity
                n_in_candidates += any(c.entity == link.entity for c in answer.candidates)
    return SpanScore(n_gold, n_correct, n_in_candidates)


def _pairs(
    gold: Sequence[LinkedText], predicted: Sequence[LinkedText]
) -> Iterator[tuple[LinkedText, LinkedText]]:
    if len(gold) != len(predicted):
        raise LinkingError(f"{len(gold)} gold texts but {len(predicted)} predicted ones")
    for i, (expected, found) in enumerate(zip(gold, predicted, strict=True)):
        if expected.text != found.text:
            raise LinkingError(
                f"text {i} differs: gold {expected.text[:40]!r}, predicted {found.text[:40]!r}"
            )
        yield expected, found
