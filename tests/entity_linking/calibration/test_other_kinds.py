"""Confidence on a kind of text that a re-ranker was not trained on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from entity_linking import LinkedText, LinkingError, Mention
from entity_linking.calibration.answers import Answer, confidences
from entity_linking.calibration.other_kinds import (
    Kind,
    KindAnswers,
    above_linked,
    adapted,
    answers_on_other_kinds,
    balanced,
    decision_for_other_kinds,
    for_texts,
    share_linked,
    without_curve,
)
from entity_linking.calibration.reliability import calibration_score
from entity_linking.decision import Decision
from entity_linking.mentions import Candidate
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
    by_kind = answers_on_other_kinds(SCORERS, kinds, QUICK)
    seen = balanced(by_kind, QUICK.seed)
    assert len(seen) == 2 * min(len(each.links) for each in by_kind.values())
    decision = decision_for_other_kinds(by_kind, QUICK.seed)
    assert decision.nil_from == 0.7
    sure, right = confidences(seen, decision)
    raw, _ = confidences(seen, replace(decision, curve=()))
    before, after = (calibration_score(sure, right).ece_width for sure in (raw, sure))
    assert after < 0.05 < before
    half = len(seen) // 2
    assert right[:half].mean() > right[half:].mean() + 0.1  # plain texts come first
    assert by_kind["plain"].right > by_kind["contrary"].right + 0.1
    assert all(0 < each.linked <= 1 for each in by_kind.values())
    again = balanced(answers_on_other_kinds(SCORERS, kinds, QUICK), QUICK.seed)
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


def links_of(n_linked: int, n_right: int, n_nil: int) -> KindAnswers:
    """A kind whose links all have a share of .75, with as many right and as many called NIL."""
    scores = np.array([np.log(3.0)])  # .75 with NIL at 0
    links = [Answer(scores, 0 if i < n_right else None, True, i) for i in range(n_linked)]
    return KindAnswers(links, n_linked / (n_linked + n_nil))


def texts_of(n_linked: int, n_nil: int) -> list[LinkedText]:
    """Texts of which as many names are linked with a share of .75, and as many are NIL."""
    candidate = Candidate("Q1", 1.0, 1.0)
    decision = without_curve(Decision(nil_score=0.0))
    return [
        LinkedText("Ulm", (decision.decide(Mention(0, 3), (candidate,), np.array([score])),))
        for score in [np.log(3.0)] * n_linked + [-1.0] * n_nil
    ]


def test_confidence_follows_the_share_of_names_that_are_linked() -> None:
    """No label of the texts is read, and of 1,000 links as many are right as the kinds promise."""
    kinds = {"much is known": links_of(80, 72, 20), "little is known": links_of(50, 30, 50)}
    assert above_linked(kinds) == pytest.approx(0.1)
    start = decision_for_other_kinds(kinds)
    assert start.confidence(np.array([np.log(3.0)])) == pytest.approx(0.75, abs=0.03)
    for n_linked, right in ((80, 0.9), (65, 0.75), (50, 0.6)):
        texts = texts_of(n_linked, 100 - n_linked)
        assert share_linked(texts) == n_linked / 100
        decision = adapted(start, above_linked(kinds), texts)
        assert decision.confidence(np.array([np.log(3.0)])) == pytest.approx(right, abs=1e-6)
        assert (decision.nil_score, decision.nil_from) == (start.nil_score, start.nil_from)


def test_moving_a_curve_keeps_the_order_of_links() -> None:
    raw = np.array([0.2, 0.5, 0.9])
    for start in (Decision(), Decision(curve=((0.1, 0.3), (0.6, 0.5), (1.0, 0.99)))):
        for mean in (0.2, 0.6, 0.9):
            moved = for_texts(start, raw, mean)
            sure = np.interp(raw, *np.array(moved.curve).T)
            assert sure.mean() == pytest.approx(mean, abs=1e-6)
            assert (np.diff(sure) > 0).all()


def test_texts_without_names_say_nothing() -> None:
    with pytest.raises(LinkingError, match="no mention of these texts has a candidate"):
        share_linked([LinkedText("Ulm", ())])
    with pytest.raises(LinkingError, match="nothing of these texts is linked"):
        adapted(Decision(), 0.1, texts_of(0, 3))
