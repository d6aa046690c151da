"""The experiment on questions: its fit, and its questions of several forms."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.asking.calibrate import GIVEN, Example, fitted_weights
from experiments.asking.trial import evaluate_forms
from experiments.asking.worlds import graph_of, paraphrases
from kept.decoders.answering.answer import LEAST_CONFIDENCE
from kept.decoders.answering.relations import WEIGHTS


def test_the_fit_finds_the_evidence_that_separates_and_keeps_rules() -> None:
    names = list(WEIGHTS)
    draw, rows = np.random.default_rng(0), []
    for _ in range(60):
        evidence = draw.normal(size=(3, len(names)))
        right = int(evidence[:, names.index("questions")].argmax())
        rows.append(Example(evidence, right, 1.0))
    weights = dict(zip(names, fitted_weights(rows), strict=True))
    assert max(weights, key=weights.__getitem__) == "questions"
    assert all(weights[name] == WEIGHTS[name] for name in GIVEN)


@pytest.mark.parametrize("part", ["dev", "tune", "test", "held-out"])
def test_every_paraphrase_is_about_a_relation_of_its_world(part: str) -> None:
    for world, templates in paraphrases(part).items():
        graph = graph_of(world, 1)
        for relation, text in templates:
            assert graph.relations.find(relation) is not None, (world, relation)
            assert text.count("[X]") == 1


def test_no_form_of_a_question_is_answered_wrongly() -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    counts = evaluate_forms(LEAST_CONFIDENCE)
    assert counts["answered wrongly"] == 0
    assert counts["refused rightly"] == counts["to refuse"] == 15
    assert counts["right"] >= 55
