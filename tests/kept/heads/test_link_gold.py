"""E-BERT's questions: which annotation is the gold of a mention."""

from __future__ import annotations

import pytest

from entity_linking.mentions import Candidate, Link, LinkedText, Mention
from kept.training.finetuning.linking.questions import questions_of

TEXT = "In Paris."


def _linked(entity: str | None, *candidates: str) -> LinkedText:
    names = candidates or ((entity,) if entity else ())
    proposed = tuple(Candidate(name, 0.5, 0.5) for name in names)
    return LinkedText(TEXT, (Link(Mention(3, 8), proposed, entity, 1.0),))


@pytest.mark.parametrize(
    ("annotated", "gold"),
    [("A", 1), ("B", 2), ("known", None), ("unknown", 0), (None, 0)],
)
def test_an_annotation_without_a_vector_is_none(annotated: str | None, gold: int | None) -> None:
    proposed = [_linked("A", "A", "B", "unknown")]
    known = {"A", "B", "known"}
    (question,) = questions_of(proposed, known.__contains__, "[MASK]", gold=[_linked(annotated)])
    assert question.gold == gold
