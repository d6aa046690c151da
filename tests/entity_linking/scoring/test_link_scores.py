"""Every score of links against counting by loops, and the laws that they keep."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entity_linking import Candidate, Link, LinkedText, Mention, gold_link
from entity_linking.errors import ScoreError
from entity_linking.scoring import (
    LinkScore,
    MacroScore,
    Match,
    SpanScore,
    binned,
    compare,
    count_links,
    macro_scores,
    measures,
    on_gold_spans,
    outcomes,
    popularity_bins,
    report,
    score_links,
    score_nils,
    score_spans,
    span_score,
    to_markdown,
)

TEXT = "0123456789"
KNOWN = {"Q1", "Q2", "Q3"}
ENTITY = st.sampled_from([None, "Q1", "Q2", "Q3", "X"])


@st.composite
def links(draw: st.DrawFn) -> tuple[Link, ...]:
    """Of few spans, so that two links often share one, a sure one and a doubtful one."""
    results = []
    for _ in range(draw(st.integers(0, 4))):
        mention = Mention(*draw(st.sampled_from([(0, 2), (0, 3), (1, 3), (4, 5), (6, 9)])))
        names = draw(st.lists(st.sampled_from(["Q1", "Q2", "Q3", "X"]), unique=True, max_size=3))
        candidates = tuple(Candidate(name, 0.5, 0.0) for name in names)
        results.append(Link(mention, candidates, draw(ENTITY), draw(st.sampled_from([0.2, 0.7]))))
    return tuple(sorted(results, key=lambda link: link.mention))


PAIRS = st.lists(st.tuples(links(), links()), min_size=2, max_size=5)


def texts(side: list[tuple[Link, ...]]) -> list[LinkedText]:
    return [LinkedText(TEXT, each) for each in side]


def naive_matches(gold: LinkedText, predicted: LinkedText, match: Match) -> tuple[int, int, int]:
    """All ways to pair the links one to one, and the best of them."""
    wanted, shorter = (
        sorted({(k.mention.start, k.mention.end, k.entity) for k in t.links if k.entity in KNOWN})
        for t in (gold, predicted)
    )
    short, long = sorted((wanted, shorter), key=len)
    best = 0
    for order in permutations(long, len(short)):
        n = 0
        for a, b in zip(short, order, strict=True):
            touch = a == b if match == "strong" else max(a[0], b[0]) < min(a[1], b[1])
            n += touch and a[2] == b[2]
        best = max(best, n)
    return len(wanted), len(shorter), best


@settings(deadline=None, max_examples=30)
@given(PAIRS, st.sampled_from(["strong", "weak"]))
def test_counts_equal_the_best_of_all_pairings(
    pairs: list[tuple[tuple[Link, ...], tuple[Link, ...]]], match: Match
) -> None:
    gold, actual = texts([a for a, _ in pairs]), texts([b for _, b in pairs])
    counts = count_links(gold, actual, match=match, known=KNOWN)
    expected = [naive_matches(a, b, match) for a, b in zip(gold, actual, strict=True)]
    assert counts.tolist() == [list(row) for row in expected]
    n_gold, n_found, n_right = (sum(row[i] for row in expected) for i in range(3))
    assert score_links(gold, actual, match=match, known=KNOWN.__contains__) == LinkScore(
        n_gold, n_found, n_right
    )
    rates = []
    for wanted, n_predicted, right in expected:
        if wanted == n_predicted == 0:
            rates.append((1.0, 1.0, 1.0))
        else:
            p, r = right / n_predicted if n_predicted else 0.0, right / wanted if wanted else 0.0
            rates.append((p, r, 2 * p * r / (p + r) if right else 0.0))
    macro = macro_scores(counts)
    means = [sum(row[i] for row in rates) / len(rates) for i in range(3)]
    assert [macro.precision, macro.recall, macro.f1] == pytest.approx(means)


@settings(deadline=None, max_examples=30)
@given(PAIRS)
def test_span_scores_equal_loops(
    pairs: list[tuple[tuple[Link, ...], tuple[Link, ...]]],
) -> None:
    gold, actual = texts([a for a, _ in pairs]), texts([b for _, b in pairs])
    outcomes_of_links = outcomes(gold, actual, known=KNOWN)
    n = dict.fromkeys(["all", "in", "right", "at1", "nil", "said", "both"], 0)
    for expected, predicted in zip(gold, actual, strict=True):
        for link in expected.links:
            same = [k for k in predicted.links if k.mention == link.mention]
            answer = max(same, key=lambda k: k.confidence) if same else None
            chosen = answer.entity if answer and answer.entity in KNOWN else None
            is_nil = link.entity not in KNOWN
            n["all"] += link.entity is not None
            n["in"] += not is_nil
            n["nil"] += is_nil
            n["right"] += link.entity is not None and chosen == link.entity
            names = [c.entity for c in answer.candidates] if answer else []
            n["at1"] += not is_nil and names[:1] == [link.entity]
            n["said"] += answer is not None and chosen is None
            n["both"] += answer is not None and chosen is None and is_nil
    assert (span_score(outcomes_of_links).n_gold, span_score(outcomes_of_links).n_correct) == (
        n["all"],
        n["right"],
    )
    assert score_spans(gold, actual, known=KNOWN).n_gold == n["in"]
    assert score_nils(outcomes_of_links) == LinkScore(n["nil"], n["said"], n["both"])
    by_name = {m.name: m for m in measures(gold, actual, known=KNOWN, gold_spans_only=False)}
    at_1 = by_name["recall@1, in graph"]
    assert (at_1.numerators.sum(), at_1.denominators.sum()) == (n["at1"], n["in"])
    assert by_name["NIL F1"].value == pytest.approx(score_nils(outcomes_of_links).f1)
    assert by_name["weak micro F1"].value == pytest.approx(
        score_links(gold, actual, match="weak", known=KNOWN).f1
    )
    assert by_name["strong macro F1"].value == pytest.approx(
        macro_scores(count_links(gold, actual, match="strong", known=KNOWN)).f1
    )


@settings(deadline=None, max_examples=20)
@given(PAIRS, st.randoms())
def test_laws(pairs: list[tuple[tuple[Link, ...], tuple[Link, ...]]], random: object) -> None:
    gold, actual = texts([a for a, _ in pairs]), texts([b for _, b in pairs])
    strong, weak = (count_links(gold, actual, match=m) for m in ("strong", "weak"))
    assert (weak[:, 2] >= strong[:, 2]).all()
    assert (weak[:, 2] <= weak[:, :2].min(1)).all()
    for match in ("strong", "weak"):
        itself = count_links(gold, gold, match=match)
        assert (itself == itself[:, :1]).all()
        assert macro_scores(itself) == MacroScore(1.0, 1.0, 1.0, len(gold))
    order = list(range(len(gold)))
    random.shuffle(order)  # type: ignore[attr-defined]
    for match in ("strong", "weak"):
        again = count_links(
            [gold[i] for i in order], [actual[i] for i in order], match=match, known=KNOWN
        )
        assert again.tolist() == count_links(gold, actual, match=match, known=KNOWN)[order].tolist()
    flipped = count_links(actual, gold, match="weak")
    assert flipped[:, [1, 0, 2]].tolist() == weak.tolist()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("entity", "is_correct"), [("Q1", True), ("Q2", False)])
def test_the_surest_of_two_links_on_a_span_is_the_answer(
    order: tuple[int, int], entity: str, is_correct: bool
) -> None:
    sure, doubtful = (
        Link(Mention(0, 2), (), name, confidence) for name, confidence in (("Q1", 0.7), ("Q2", 0.2))
    )
    gold = [LinkedText(TEXT, (gold_link(0, 2, entity),))]
    predicted_ = [LinkedText(TEXT, tuple((sure, doubtful)[i] for i in order))]
    (outcome,) = outcomes(gold, predicted_)
    assert (outcome.answer, outcome.is_correct) == ("Q1", is_correct)


def test_weak_matching_is_not_greedy() -> None:
    gold = LinkedText(TEXT, (gold_link(0, 6, "Q1"), gold_link(5, 8, "Q1")))
    actual = LinkedText(TEXT, (gold_link(0, 1, "Q1"), gold_link(4, 6, "Q1")))
    assert score_links([gold], [actual], match="weak") == LinkScore(2, 2, 2)
    touching = LinkedText(TEXT, (gold_link(6, 7, "Q2"), gold_link(8, 9, "Q1")))
    assert score_links([gold], [touching], match="weak").n_correct == 0


def test_a_text_without_links() -> None:
    empty, one = LinkedText(TEXT, ()), LinkedText(TEXT, (gold_link(0, 1, "Q1"),))
    for gold, each, f1 in ((empty, empty, 1.0), (empty, one, 0.0), (one, empty, 0.0)):
        assert macro_scores(count_links([gold], [each], match="strong")).f1 == f1
    outside = LinkedText(TEXT, (gold_link(0, 1, "X"),))
    assert macro_scores(count_links([outside], [empty], match="strong", known=KNOWN)).f1 == 1.0
    assert macro_scores(np.zeros((0, 3), np.int64)) == MacroScore(0.0, 0.0, 0.0, 0)


def test_gold_spans_alone() -> None:
    gold = LinkedText(TEXT, (gold_link(0, 2, "Q1"), gold_link(4, 6, None)))
    links_ = (gold_link(0, 2, "Q1"), gold_link(0, 3, "Q1"), gold_link(4, 6, "Q2"))
    actual = LinkedText(TEXT, links_)
    (kept,) = on_gold_spans([gold], [actual])
    assert [link.mention for link in kept.links] == [Mention(0, 2), Mention(4, 6)]
    free = report([gold], [actual], known=None, gold_spans_only=False)
    bound = report([gold], [actual], known=None, gold_spans_only=True)
    assert free["strong micro precision"].value == pytest.approx(1 / 3)
    assert bound["strong micro precision"].value == 1 / 2
    assert free["accuracy, all"] == bound["accuracy, all"]
    assert free["accuracy, all"].interval is None


def test_bins() -> None:
    gold = LinkedText(TEXT, tuple(gold_link(i, i + 1, f"Q{i}") for i in range(6)))
    actual = LinkedText(TEXT, tuple(gold_link(i, i + 1, f"Q{i % 2}") for i in range(5)))
    outcomes_of_links = outcomes([gold], [actual])
    counts = {"Q1": 1, "Q2": 9, "Q3": 10, "Q4": 999, "Q5": 1000}
    levels = popularity_bins(outcomes_of_links, counts)
    assert levels == {
        "0": SpanScore(1, 1, 1), "1-9": SpanScore(2, 1, 1), "10-99": SpanScore(1, 0, 0),
        "100-999": SpanScore(1, 0, 0), "1000-9999": SpanScore(1, 0, 0),
    }  # fmt: skip
    assert popularity_bins(outcomes_of_links, lambda name: counts.get(name, 0)) == levels
    types = [("a",), ("a", "b"), (), ("b",), (), ()]
    assert binned(outcomes_of_links, types) == {"a": SpanScore(2, 2, 2), "b": SpanScore(2, 1, 1)}
    for wrong in (
        lambda: binned(outcomes_of_links, types[:2]),
        lambda: popularity_bins(outcomes_of_links, counts, base=1),
        lambda: popularity_bins(outcomes_of_links, {"Q1": -1}),
    ):
        with pytest.raises(ScoreError):
            wrong()


def some_texts(n: int, wrong_every: int) -> tuple[list[LinkedText], list[LinkedText]]:
    gold = [
        LinkedText(TEXT, (gold_link(0, 2, "Q1"), gold_link(3, 4, "Q2")), str(i)) for i in range(n)
    ]
    results = [
        replace(t, links=(t.links[0], gold_link(3, 4, "Q3"))) if i % wrong_every == 0 else t
        for i, t in enumerate(gold)
    ]
    return gold, results


def test_a_report_has_intervals_and_tables() -> None:
    gold, actual = some_texts(20, 4)
    outcomes_of_links = outcomes(gold, actual)
    bins = {"degree": popularity_bins(outcomes_of_links, {"Q1": 3})}
    result = report(gold, actual, known=KNOWN, gold_spans_only=False, bins=bins, n_resamples=200)
    score = result["strong micro F1"]
    assert score.value == pytest.approx(35 / 40)
    assert score.interval is not None
    assert score.interval.low < score.value < score.interval.high
    assert result == report(
        gold, actual, known=KNOWN, gold_spans_only=False, bins=bins, n_resamples=200
    )
    table = result.to_markdown()
    assert "| strong micro F1 | 0.875 | 0." in table
    assert "| 1-9 | 20 | 1.000 | 1.000 |" in table
    unmeasured = report(gold[:0], actual[:0], known=KNOWN, gold_spans_only=False).to_markdown()
    assert "| NIL F1 | – |  | 0 |" in unmeasured, "no 0.000 where nothing was counted"
    parsed = json.loads(result.to_json())
    assert parsed["scores"][0]["name"] == "strong micro precision"
    row = to_markdown({"ours": result}, ["accuracy, all", "recall@30, all"]).splitlines()[-1]
    assert row.startswith("| ours | 0.875 [")
    with pytest.raises(ScoreError, match="no score is called 'f1'; there are: strong micro"):
        result["f1"]


def test_paired_differences() -> None:
    gold, ours = some_texts(30, 10)
    _, theirs = some_texts(30, 2)
    first, second = (
        measures(gold, side, known=None, gold_spans_only=False) for side in (ours, theirs)
    )
    same = compare(first, first, n_resamples=50)
    assert {(i.low, i.estimate, i.high) for i in same.values()} == {(0.0, 0.0, 0.0)}
    difference = compare(first, second, n_resamples=500)["strong micro F1"]
    assert difference.estimate == pytest.approx((57 - 45) / 60)
    assert 0 < difference.low < difference.estimate < difference.high
    with pytest.raises(ScoreError, match="same scores"):
        compare(first, second[1:])


def test_a_wrong_match_is_told() -> None:
    with pytest.raises(ScoreError, match="match is 'fuzzy'"):
        count_links([], [], match="fuzzy")  # type: ignore[arg-type]
