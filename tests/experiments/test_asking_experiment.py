"""The experiment on questions: its fit, and its questions of several forms."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking import DictionaryLinker
from experiments.asking.calibrate import FIXED, Example, fitted_weights, without_fact
from experiments.asking.trial import evaluate_forms
from experiments.asking.worlds import graph_of, paraphrases
from kept.decoders.answering.answer import LEAST_CONFIDENCE, Answerer
from kept.decoders.answering.encoder import FastSentenceEncoder
from kept.decoders.answering.relations import WEIGHTS
from kg_loaders import KnowledgeGraph


def test_the_fit_finds_the_evidence_that_separates_and_keeps_rules() -> None:
    names = list(WEIGHTS)
    draw, rows = np.random.default_rng(0), []
    for _ in range(60):
        evidence = draw.normal(size=(3, len(names)))
        right = int(evidence[:, names.index("questions")].argmax())
        rows.append(Example(evidence, right, 1.0))
    weights = dict(zip(names, fitted_weights(rows), strict=True))
    assert max(weights, key=weights.__getitem__) == "questions"
    assert all(weights[name] == WEIGHTS[name] for name in FIXED)


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


def test_a_reading_without_a_relation_is_that_of_a_graph_without_it() -> None:
    pytest.importorskip("ctranslate2", reason="the extra ask is not installed")
    rest = [
        (name, relation, value)
        for name, town in (("Ada Alvik", "Kaldvik"), ("Bo Brandt", "Osterby"))
        for relation, value in (("instance of", "person"), ("lives in", town), ("age", "41"))
    ]
    born = [("Ada Alvik", "place of birth", "Osterby"), ("Bo Brandt", "place of birth", "Kaldvik")]
    question, readings = "Where was Ada Alvik born?", []
    for rows in (rest + born, rest):
        graph = KnowledgeGraph.from_triples(rows)
        answerer = Answerer(graph, DictionaryLinker(graph), FastSentenceEncoder())
        readings.append(answerer.best_reading(question))
    whole, less = readings
    assert whole is not None
    assert less is not None
    others = {choice for choice in whole.match.shares if choice != whole.choice}
    same = without_fact(whole, whole.choice, others)
    assert same is not None
    assert same.evidence == pytest.approx(less.evidence, abs=1e-3)
    assert same.confidence == pytest.approx(less.confidence, abs=1e-3)
    assert same.confidence < LEAST_CONFIDENCE < whole.confidence
