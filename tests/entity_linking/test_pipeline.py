from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from entity_linking import DictionaryLinker, LinkedText, LinkingError, Mention
from entity_linking.decision import LIKELIEST, Decision
from entity_linking.mentions import Candidate, Link
from entity_linking.parts import Candidates, Scores
from entity_linking.pipeline import Pipeline
from kg_loaders import Text, TextKind, graph_from_records

PARIS = (Candidate("Q90", 0.9, 0.9), Candidate("Q830149", 0.1, 0.1))


class _Fixed:
    """The same candidates for every mention, scored by the position of the mention."""

    def candidates(self, texts: Sequence[LinkedText]) -> list[list[Candidates]]:
        return [[PARIS for _ in text.links] for text in texts]

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        return [[np.array([0.0, float(link.mention.start)]) for link in t.links] for t in texts]


def test_parts_make_a_linker() -> None:
    graph = graph_from_records([Text("Q90", TextKind.LABEL, "Paris")])
    pipeline = Pipeline(DictionaryLinker(graph), _Fixed(), _Fixed())
    text = "Paris, Paris"
    (linked,) = pipeline.link([text])
    first, second = linked.links
    assert (first.mention, first.entity, first.confidence) == (Mention(0, 5), "Q90", 0.5)
    assert (second.entity, second.candidates[0].score) == ("Q830149", 7.0)
    assert second.confidence == pytest.approx(1 / (1 + math.exp(-7)))
    again = pipeline.disambiguate([replace(linked, id="7")])
    assert again == [replace(linked, id="7")]


def test_nil_competes_with_the_candidates() -> None:
    scores = np.array([1.0, 3.0])
    with_nil = Decision(temperature=2.0, nil_score=3.0, nil_below=0.5)
    expected = math.exp(1.5) / (math.exp(0.5) + 2 * math.exp(1.5))
    link = with_nil.decide(Mention(0, 5), PARIS, scores)
    assert link.entity is None
    assert link.confidence == pytest.approx(1 - expected)
    assert [c.entity for c in link.candidates] == ["Q830149", "Q90"]


def test_what_is_neither_linked_nor_surely_nil_is_not_said() -> None:
    """At the text's start both candidates have 0 and NIL 0.5, not half of the shares."""
    graph = graph_from_records([Text("Q90", TextKind.LABEL, "Paris")])
    decision = Decision(nil_score=0.5, nil_from=LIKELIEST)
    pipeline = Pipeline(DictionaryLinker(graph), _Fixed(), _Fixed(), decision)
    (linked,) = pipeline.link(["Paris, Paris"])
    assert [(k.mention.start, k.entity) for k in linked.links] == [(7, "Q830149")]
    surer = replace(decision, nil_score=2.0)
    (linked,) = Pipeline(DictionaryLinker(graph), _Fixed(), _Fixed(), surer).link(["Paris, Paris"])
    assert [k.entity for k in linked.links] == [None, "Q830149"]
    text = LinkedText("Paris", (Link(Mention(0, 5), (), None, 1.0),))
    assert len(pipeline.disambiguate([text])[0].links) == 1, "given mentions stay"


GRAPH = graph_from_records([Text("Q90", TextKind.LABEL, "Paris")])


def test_one_text_has_one_answer_and_likeness_lowers_its_confidence() -> None:
    plain = Pipeline(DictionaryLinker(GRAPH), _Fixed(), _Fixed())
    half = Pipeline(
        DictionaryLinker(GRAPH), _Fixed(), _Fixed(), likeness=lambda texts: [[0.25] for _ in texts]
    )
    assert [plain.link("Paris")] == plain.link(["Paris"])
    (sure,), (less,) = plain.link("Paris").links, half.link("Paris").links
    assert (sure.confidence, less.confidence) == (0.5, 0.125)


class _Rewriting:
    """Gives the same array again and again, and writes others' scores into it."""

    values = np.zeros(2)

    def scores(self, texts: Sequence[LinkedText]) -> list[list[Scores]]:
        return [[self.values for _ in text.links] for text in texts]


def test_a_decision_is_not_remembered_for_scores_that_were_rewritten() -> None:
    scorer = _Rewriting()
    pipeline = Pipeline(DictionaryLinker(GRAPH), _Fixed(), scorer)
    chosen = []
    for scores in ((1.0, 0.0), (0.0, 1.0), (1.0, 0.0)):
        scorer.values[:] = scores
        chosen.append(pipeline.link("Paris").links[0].entity)
    assert chosen == ["Q90", "Q830149", "Q90"]


def test_a_curve_calibrates() -> None:
    decision = Decision(curve=((0.5, 0.1), (1.0, 0.6)))
    assert decision.confidence(np.array([2.0])) == pytest.approx(0.6)
    assert decision.confidence(np.array([0.0, 0.0])) == pytest.approx(0.1)


def test_no_candidates_are_nil() -> None:
    assert Decision().decide(Mention(0, 1), (), np.empty(0)).entity is None


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": 0.0}, {"nil_below": 1.1}, {"curve": ((0.5, 0.1), (0.5, 0.2))}],
)
def test_wrong_settings_are_told(wrong: dict[str, object]) -> None:
    with pytest.raises(LinkingError):
        Decision(**wrong)  # type: ignore[arg-type]


def test_scores_must_fit_the_candidates() -> None:
    with pytest.raises(LinkingError, match="1 scores for 2"):
        Decision().decide(Mention(0, 1), PARIS, np.zeros(1))
