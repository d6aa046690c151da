"""Answers of a linker beside what is right: what decisions are fitted on.

Axis legend: answer (a mention), candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entity_linking.decision import Decision
from entity_linking.mentions import LinkedText
from entity_linking.parts import Scores
from entity_linking.scoring.links import Known, paired, predicate

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """One mention with what a linker knew and what is right.

    `scores` are those of its candidates, `right` the place of the right one, None when there is
    none (NIL, or the entity is not among the candidates); `has_entity`: gold is not NIL; `text` is
    the position of the text. `span` is the probability that it is a mention, `is_marked` whether
    gold has it.
    """

    scores: Scores
    right: int | None
    has_entity: bool
    text: int
    span: float = 1.0
    is_marked: bool = True

    @property
    def best_is_right(self) -> bool:
        return self.right is not None and int(np.argmax(self.scores)) == self.right


def answers(
    gold: Sequence[LinkedText],
    predicted: Sequence[LinkedText],
    *,
    unmarked: Literal["skip", "nil"],
    known: Known | None = None,
    spans: Sequence[Sequence[float]] | None = None,
) -> list[Answer]:
    """The predicted mentions whose gold is known, with the scores that their candidates bear.

    `unmarked`: a predicted mention that gold does not mark is skipped (text that is annotated in
    part, or gold spans) or NIL (text that is annotated in full). `spans` are the probabilities of
    the predicted mentions. Mentions without candidates are left out, as they are NIL whatever the
    decision, but not where `spans` are given: `fit_nil_from` reads them. Where gold marks a span
    twice, the first one that is an entity counts. Gold entities that `known` does not know are NIL.
    """
    knows = predicate(known)
    rows = []
    for i, (expected, linked) in enumerate(paired(gold, predicted)):
        gold_of: dict[object, str | None] = {}
        for link in expected.links:
            entity = link.entity if link.entity is not None and knows(link.entity) else None
            if gold_of.setdefault(link.mention, entity) is None:
                gold_of[link.mention] = entity
        sure = [1.0] * len(linked.links) if spans is None else spans[i]
        for link, span in zip(linked.links, sure, strict=True):
            is_marked = link.mention in gold_of
            is_bare = not link.candidates and spans is None
            if is_bare or (unmarked == "skip" and not is_marked):
                continue
            entity = gold_of.get(link.mention)
            scores = np.array([c.score for c in link.candidates], np.float64)
            places = (k for k, c in enumerate(link.candidates) if c.entity == entity)
            position = next(places, None)
            rows.append(Answer(scores, position, entity is not None, i, span, is_marked))
    return rows


def with_candidates(seen: Sequence[Answer]) -> list[Answer]:
    """The answers about which there is something to decide."""
    return [each for each in seen if len(each.scores)]


def accepted(seen: Sequence[Answer], decision: Decision) -> NDArray[np.bool_]:
    """Whether the best candidate of every answer is linked, `[answer]`; else the answer is NIL."""
    sure, _ = confidences(seen, decision)
    if decision.nil_from is None:
        return sure >= decision.nil_below
    nil_wins = np.array([decision.nil_wins(each.scores) for each in seen], np.bool_)
    return (sure >= decision.nil_below) & ~nil_wins


def confidences(seen: Sequence[Answer], decision: Decision) -> tuple[Floats, NDArray[np.bool_]]:
    """Of the best candidate of every answer, and whether it is right, both `[answer]`."""
    sure = np.array([decision.confidence(each.scores, each.span) for each in seen], np.float64)
    return sure, np.array([each.best_is_right for each in seen], np.bool_)
