"""Confidence on a kind of text that a re-ranker was not trained on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from entity_linking import LinkedText, LinkingError
from entity_linking.calibration.answers import confidences
from entity_linking.calibration.other_kinds import (
    Kind,
    answers_on_other_kinds,
    decision_for_other_kinds,
)
from entity_linking.calibration.reliability import calibration_score
from entity_linking.parts import Scorer
from entity_linking.scorers.features import PriorScorer
from entity_linking.scorers.rerank_parts import RerankSettings
from tests.rerank_worlds import toy_world

SCORERS: dict[str, Scorer] = {"prior": PriorScorer(), "rough": PriorScorer(floor=0.2)}
QUICK = RerankSettings(epochs=10, learning_rate=0.03, mentions_per_step=64)


def contrary(texts: list[LinkedText]) -> list[LinkedText]:
    """Every third text means its last candidate."""
    return [
        replace(t, links=(replace(t.links[0], entity=t.links[0].candidates[-1].entity),))
        if i % 3 == 0
        else t
        for i, t in enumerate(texts)
    ]


def test_each_kind_is_judged_by_what_the_others_teach() -> None:
    kinds = {
        "plain": Kind(toy_world(200, 0), toy_world(50, 1)),
        "contrary": Kind(contrary(toy_world(90, 2)), contrary(toy_world(30, 3))),
    }
    seen = answers_on_other_kinds(SCORERS, kinds, QUICK)
    assert len(seen) % 2 == 0
    decision = decision_for_other_kinds(seen)
    assert decision.nil_from == 0.5
    report, right = confidences(seen, decision)
    raw, _ = confidences(seen, replace(decision, curve=()))
    before, after = (calibration_score(sure, right).ece_width for sure in (raw, report))
    assert after < 0.05 < before
    half = len(seen) // 2
    assert right[:half].mean() > right[half:].mean() + 0.1  # plain texts come first
    again = answers_on_other_kinds(SCORERS, kinds, QUICK)
    assert all(np.array_equal(a.scores, b.scores) for a, b in zip(seen, again, strict=True))


def test_text_of_the_training_itself_is_no_other_kind() -> None:
    """The curve of one kind in two parts promises more than that of two kinds."""
    half = Kind(toy_world(100, 0), toy_world(30, 1)), Kind(toy_world(100, 2), toy_world(30, 3))
    one = answers_on_other_kinds(SCORERS, dict(zip("ab", half, strict=True)), QUICK)
    other = Kind(contrary(toy_world(100, 2)), contrary(toy_world(30, 3)))
    two = answers_on_other_kinds(SCORERS, {"a": half[0], "b": other}, QUICK)
    sure = [decision_for_other_kinds(seen).confidence(np.array([9.0, -9.0])) for seen in (one, two)]
    assert sure[0] > sure[1] + 0.05


def test_one_kind_is_refused() -> None:
    with pytest.raises(LinkingError, match="give two kinds or more"):
        answers_on_other_kinds(SCORERS, {"a": Kind(toy_world(9, 0), toy_world(9, 1))}, QUICK)
