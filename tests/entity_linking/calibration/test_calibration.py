"""Fitting decisions: against known parameters, grids, loops and laws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import Candidate, Link, LinkedText, Mention, gold_link
from entity_linking.calibration.answers import Answer, accepted, answers, confidences
from entity_linking.calibration.fitting import (
    EVERY_STEP,
    STEPS,
    FittedDecision,
    cross_validated,
    f1_of,
    fit,
    fit_curve,
    fit_temperature,
    fit_threshold,
    load_decision,
    save_decision,
)
from entity_linking.calibration.reliability import brier_score
from entity_linking.decision import LIKELIEST, Decision
from entity_linking.errors import LinkIndexError, ScoreError
from kg_loaders import KnowledgeGraph
from kg_loaders.disk import seals
from kg_loaders.errors import WriteError


def simulated(n: int, *, temperature: float, nil: float | None, seed: int = 0) -> list[Answer]:
    """Mentions whose right candidate is drawn from the model itself, three a text."""
    draws = np.random.default_rng(seed)
    results = []
    for i in range(n):
        scores = draws.normal(5, 3, int(draws.integers(1, 6)))
        logits = np.append(scores, -np.inf if nil is None else nil) / temperature
        share = np.exp(logits - logits.max())
        label = int(draws.choice(len(share), p=share / share.sum()))
        right = label if label < len(scores) else None
        results.append(Answer(scores, right, right is not None or i % 2 == 0, i // 3))
    return results


def likelihood(seen: list[Answer], temperature: float, nil: float | None) -> float:
    total = 0.0
    for each in seen:
        logits = [s / temperature for s in each.scores.tolist()]
        logits.append(-np.inf if nil is None else nil / temperature)
        position = len(logits) - 1 if each.right is None else each.right
        total += logits[position] - np.logaddexp.reduce(logits)
    return total


def test_known_parameters_are_found() -> None:
    seen = simulated(3000, temperature=2.5, nil=4.0)
    actual = fit_temperature(seen, Decision(), nil=True)
    assert actual.temperature == pytest.approx(2.5, rel=0.1)
    assert actual.nil_score == pytest.approx(4.0, abs=0.4)
    best = likelihood(seen, actual.temperature, actual.nil_score)
    for t in (0.97, 1.03):
        assert likelihood(seen, actual.temperature * t, actual.nil_score) < best
        assert likelihood(seen, actual.temperature, actual.nil_score * t) < best


def test_temperature_alone_reads_mentions_with_a_right_candidate() -> None:
    seen = simulated(1000, temperature=0.7, nil=4.0)
    actual = fit_temperature(seen, Decision(nil_score=9.0), nil=False)
    assert actual.nil_score is None
    rightful = [each for each in seen if each.right is not None]
    assert fit_temperature(rightful, Decision(), nil=True) == actual
    best = likelihood(rightful, actual.temperature, None)
    assert all(likelihood(rightful, actual.temperature * t, None) < best for t in (0.95, 1.05))


def test_shifting_and_scaling_scores_changes_no_confidence() -> None:
    seen = simulated(300, temperature=1.5, nil=3.0)
    moved = [replace(each, scores=each.scores * 40 - 1000) for each in seen]
    first, second = (fit(side, steps=("temperature", "nil")) for side in (seen, moved))
    assert second.temperature == pytest.approx(first.temperature * 40, rel=1e-3)
    np.testing.assert_allclose(
        confidences(seen, first)[0], confidences(moved, second)[0], atol=1e-4
    )


def test_nothing_wrong_gives_a_finite_temperature() -> None:
    seen = [Answer(np.array([1.0, 3.0]), 1, True, i) for i in range(9)]
    actual = fit_temperature(seen, Decision(), nil=True)
    assert 1e-3 <= actual.temperature < 0.2
    assert actual.confidence(np.array([1.0, 3.0])) == pytest.approx(1.0)
    assert actual.nil_score is None
    one = [Answer(np.array([2.0]), 0, True, 0)]
    assert fit_temperature(one, Decision(), nil=True).confidence(np.array([2.0])) == 1.0
    with pytest.raises(ScoreError, match="none of 2 mentions"):
        fit_temperature([Answer(np.ones(2), None, False, 0)] * 2, Decision(), nil=True)


CLEAR = st.lists(
    st.tuples(st.floats(-4, 4), st.booleans()), min_size=1, max_size=60
).map(
    lambda rows: [
        Answer(np.array([s, 0.0]), 0 if ok == (s >= 0) else 1, True, i)
        for i, (s, ok) in enumerate(rows)
    ]
)  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(CLEAR, st.integers(2, 6))
def test_a_curve_never_lowers_the_likelihood_of_its_own_data(
    seen: list[Answer], n_points: int
) -> None:
    raw, right = confidences(seen, Decision())
    actual = fit_curve(seen, Decision(), n_points=n_points)
    least = 1 / (len(seen) + 2)
    sure, _ = confidences(seen, actual)

    def total(values: np.ndarray) -> float:
        return float(np.log(np.where(right, values, 1 - values)).sum())

    assert total(sure) >= total(np.clip(raw, least, 1 - least)) - 1e-9
    values = [value for _, value in actual.curve]
    assert values == sorted(values)
    assert all(least - 1e-12 <= value <= 1 - least + 1e-12 for value in values)


def test_a_curve_has_few_points_and_calibrates() -> None:
    seen = simulated(4000, temperature=4.0, nil=3.0)
    sharp = Decision(temperature=1.0)
    actual = fit_curve(seen, sharp)
    assert 3 <= len(actual.curve) <= 12
    fresh = simulated(4000, temperature=4.0, nil=3.0, seed=9)
    for side, limit in ((seen, 0.03), (fresh, 0.05)):
        sure, right = confidences(side, actual)
        assert abs(sure.mean() - right.mean()) < limit
        assert brier_score(sure, right) < brier_score(*confidences(side, sharp)) - 0.05


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([0, 1, 5]),
)
def test_a_threshold_has_the_best_f1_of_all(
    rows: list[tuple[int, bool, bool]], n_missed: int
) -> None:
    """Few levels of confidence, so that right, wrong and unreachable mentions share them."""
    seen = [
        Answer(np.array([float(s), 0.0]), 0 if ok else None, ok or has, i)
        for i, (s, ok, has) in enumerate(rows)
    ]
    actual = fit_threshold(seen, Decision(), n_missed=n_missed)

    def f1(below: float) -> float:
        kept = [
            each for each in seen
            if replace(actual, nil_below=below).confidence(each.scores) >= below
        ]  # fmt: skip
        right = sum(each.best_is_right for each in kept)
        whole = len(kept) + sum(each.has_entity for each in seen) + n_missed
        return 2 * right / whole if whole else 0.0

    everything = [0.0, 1.0, *confidences(seen, Decision())[0].tolist()]
    assert f1(actual.nil_below) == max(map(f1, everything))


def test_steps_can_be_fitted_alone() -> None:
    seen = simulated(300, temperature=2.0, nil=4.0)
    start = Decision(temperature=3.0, nil_score=1.0)
    assert fit(seen, start, steps=()) == start
    curve = fit(seen, start, steps=("curve",))
    assert (curve.temperature, curve.nil_score, curve.nil_below) == (3.0, 1.0, 0.0)
    every = fit(seen, start)
    assert every == fit_threshold(seen, fit_curve(seen, fit_temperature(seen, start, nil=True)))
    assert every.nil_below > 0
    for steps, message in ((("nil",), "name both steps"), (("shape",), "no steps are called")):
        with pytest.raises(ScoreError, match=message):
            fit(seen, steps=steps)  # type: ignore[arg-type]
    for alone in ("curve", "threshold"):
        with pytest.raises(ScoreError, match="no mention with candidates"):
            fit([], steps=(alone,))  # type: ignore[arg-type]


def test_entities_that_are_no_candidates_are_to_be_found_too() -> None:
    """Two sure links, of three doubtful ones one right: worth taking where much is lost anyway.

    Without the doubtful ones F1 is 2·2/(2+n), with them 2·3/(5+n): better for n above 4. Three
    links are right; ten more mentions have an entity that no candidate is.
    """
    sure = [Answer(np.array([5.0, 0.0]), 0, True, 0)] * 2
    doubtful = [Answer(np.array([0.2, 0.0]), right, right == 0, 0) for right in (0, None, None)]
    unreachable = [Answer(np.array([0.1, 0.0]), None, True, 0)] * 10
    assert fit_threshold([*sure, *doubtful], Decision()).nil_below > 0.6
    fitted = fit_threshold([*sure, *doubtful, *unreachable], Decision())
    kept = [fitted.confidence(each.scores) >= fitted.nil_below for each in (sure[0], doubtful[0])]
    assert kept == [True, True]


def test_lost_mentions_make_doubtful_links_pay() -> None:
    def seen(score: float, right: int | None) -> Answer:
        return Answer(np.array([score, 0.0]), right, right is not None, 0)

    doubtful = [seen(0.2, 0), seen(0.2, None), seen(0.2, None), seen(0.2, None)]
    mentions = [*(seen(5.0, 0) for _ in range(4)), *doubtful]
    assert fit_threshold(mentions, Decision()).nil_below > 0.5
    assert fit_threshold(mentions, Decision(), n_missed=20).nil_below == 0.0
    with pytest.raises(ScoreError, match="n_missed is -1"):
        fit_threshold(mentions, Decision(), n_missed=-1)


def test_answers_are_read_from_links() -> None:
    both = (Candidate("Q1", 0.5, 3.0), Candidate("Q2", 0.5, 1.0))
    gold = LinkedText(
        "abcdefgh",
        (
            gold_link(0, 1, None),
            gold_link(0, 1, "Q2"),
            gold_link(2, 3, "Q9"),
            gold_link(4, 5, "Q1"),
        ),
    )
    actual = LinkedText(
        "abcdefgh",
        (
            Link(Mention(0, 1), both, "Q1", 0.5), Link(Mention(2, 3), both, None, 0.5),
            Link(Mention(4, 5), (), None, 1.0), Link(Mention(6, 7), both, "Q1", 0.5),
        ),
    )  # fmt: skip
    seen = answers([gold], [actual], unmarked="skip")
    assert [(each.right, each.has_entity, each.text) for each in seen] == [
        (1, True, 0), (None, True, 0),
    ]  # fmt: skip
    assert seen[0].scores.tolist() == [3.0, 1.0]
    full = answers([gold], [actual], unmarked="nil", known={"Q1"})
    assert [(each.right, each.has_entity) for each in full] == [(None, False)] * 3


def test_cross_validation_never_fits_on_what_it_measures() -> None:
    seen = simulated(600, temperature=4.0, nil=3.0)
    actual = cross_validated(seen, Decision(temperature=1.0), n_folds=4, seed=1)
    assert actual.after.ece_width < actual.before.ece_width / 2
    by_text: dict[int, set[int]] = {}
    for each, fold in zip(seen, actual.fold.tolist(), strict=True):
        by_text.setdefault(each.text, set()).add(fold)
    assert {len(folds) for folds in by_text.values()} == {1}
    assert np.bincount([min(folds) for folds in by_text.values()]).tolist() == [50] * 4
    rest = [each for each, fold in zip(seen, actual.fold, strict=True) if fold != 2]
    held = [each for each, fold in zip(seen, actual.fold, strict=True) if fold == 2]
    again, _ = confidences(held, fit(rest, Decision(temperature=1.0)))
    assert again.tolist() == actual.calibrated[actual.fold == 2].tolist()
    with pytest.raises(ScoreError, match="300 folds of 200 texts"):
        cross_validated(seen, n_folds=300)


def test_saving_and_loading_is_the_identity(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    decision = fit(simulated(200, temperature=2.0, nil=4.0))
    fitted = FittedDecision(decision, small_graph.content_hash, "prior", "made-up text", 200)
    path = tmp_path / "decision.json"
    save_decision(fitted, path)
    assert load_decision(path, small_graph) == fitted
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph_hash": "ab"}, "fitted on graph ab"),
        ({"format": 99}, "has format 99, this version reads 1"),
        ({"decision": {"temperature": -1}}, "temperature is -1"),
        ({"n_answers": "many"}, "Expected `int`"),
        ({"decision": {"temperature": 2}}, "was altered"),
    ],
)
def test_damaged_decisions_are_refused(
    small_graph: KnowledgeGraph, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "decision.json"
    save_decision(FittedDecision(Decision(), small_graph.content_hash, "s", "t", 1), path)
    values = json.loads(path.read_text()) | change
    path.write_bytes(seals.rendered(values))
    if message != "was altered":
        path.write_bytes(seals.rendered(values | {"seal": seals.seal_of(values)}))
    with pytest.raises(LinkIndexError, match=message):
        load_decision(path, small_graph)
    path.write_bytes(b"\xff{")
    with pytest.raises(LinkIndexError, match="is not a decision"):
        load_decision(path, small_graph)


def test_a_threshold_lies_midway_between_two_confidences() -> None:
    """Also where only the lowest is left out."""
    doubtful, likely, sure = (
        Answer(np.array([gap, 0.0]), right, right is not None, i)
        for i, (gap, right) in enumerate([(0.1, None), (1.0, 0), (4.0, 0)])
    )
    confidence, _ = confidences([doubtful, likely, sure], Decision())
    actual = fit_threshold([doubtful, likely, sure], Decision()).nil_below
    assert actual == pytest.approx(confidence[:2].mean())
    wrong = Answer(np.array([1.0, 0.0]), None, False, 3)
    actual = fit_threshold([doubtful, wrong, wrong, sure], Decision()).nil_below
    assert actual == pytest.approx(confidence[1:].mean())


def test_a_decision_is_replaced_only_by_force(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    one, other = (
        FittedDecision(Decision(), small_graph.content_hash, "s", f"text {i}", 1) for i in range(2)
    )
    path = tmp_path / "decision.json"
    save_decision(one, path)
    with pytest.raises(WriteError):
        save_decision(other, path)
    assert load_decision(path, small_graph) == one
    save_decision(other, path, force=True)
    assert load_decision(path, small_graph) == other


def test_f1_of_a_decision_that_is_not_fitted() -> None:
    """Right and likelier than NIL; wrong and likelier; right but NIL wins; without candidates."""
    seen = [
        Answer(np.array([2.0, -1.0]), 0, True, 0),
        Answer(np.array([1.0, 0.5]), 1, True, 0),
        Answer(np.array([-2.0]), 0, True, 1),
        Answer(np.array([]), None, True, 1),
    ]
    linked = Decision(nil_score=0.0)
    competing = replace(linked, nil_from=LIKELIEST)
    assert accepted(seen[:3], linked).tolist() == [True, True, True]
    assert accepted(seen[:3], competing).tolist() == [True, True, False]
    assert f1_of(seen, linked) == pytest.approx(2 * 2 / (3 + 4))
    assert f1_of(seen, competing, n_missed=1) == pytest.approx(2 * 1 / (2 + 5))
    with pytest.raises(ScoreError, match="no mention with candidates"):
        f1_of(seen[3:], linked)


def test_folds_say_nil_where_it_competes() -> None:
    """What is cross-validated is what the decision of all steps links."""
    seen = simulated(600, temperature=1.0, nil=4.0)
    without, with_nil = (cross_validated(seen, steps=steps) for steps in (STEPS, EVERY_STEP))
    assert with_nil.accepted.sum() < without.accepted.sum()
    assert not (with_nil.accepted & ~without.accepted).any()


def test_an_answer_as_sure_as_the_threshold_is_linked() -> None:
    """With and without a threshold of its own for NIL: the measured threshold is one of these."""
    seen = [Answer(np.array([score, 0.0]), 0, True, 0) for score in (1.0, 2.0, 3.0)]
    sure, _ = confidences(seen, Decision())
    for nil_from in (None, 1.0):
        decision = Decision(nil_below=float(sure[1]), nil_from=nil_from)
        assert accepted(seen, decision).tolist() == [False, True, True]
