"""Micro scores by hand."""

from __future__ import annotations

import pytest

from entity_linking import Candidate, Link, LinkedText, LinkingError, Mention, gold_link
from entity_linking.errors import ScoreError
from entity_linking.scoring import LinkScore, SpanScore, score_links, score_spans
from entity_linking.scoring.spans import Outcome, popularity_bins

TEXT = "aa bb cc dd"
GOLD = LinkedText(
    TEXT,
    (gold_link(0, 2, "Q1"), gold_link(3, 5, "Q2"), gold_link(6, 8, None), gold_link(9, 11, "Q4")),
)
PREDICTED = LinkedText(
    TEXT,
    (
        gold_link(0, 2, "Q1"),
        Link(Mention(3, 5), (Candidate("Q9", 0.6, 0.6), Candidate("Q2", 0.4, 0.4)), "Q9", 0.6),
        gold_link(6, 8, "Q3"),
        gold_link(9, 10, "Q4"),
    ),
)


def test_strong_match() -> None:
    score = score_links([GOLD], [PREDICTED])
    assert score == LinkScore(n_gold=3, n_predicted=4, n_correct=1)
    assert (score.precision, score.recall, score.f1) == (1 / 4, 1 / 3, 2 / 7)


def test_gold_spans() -> None:
    score = score_spans([GOLD, GOLD], [PREDICTED, GOLD])
    assert score == SpanScore(n_gold=6, n_correct=4, n_in_candidates=5)
    assert (score.accuracy, score.candidate_recall) == (4 / 6, 5 / 6)


def test_nothing_to_score_is_zero() -> None:
    empty = LinkedText(TEXT, ())
    assert score_links([empty], [empty]).f1 == 0.0
    assert score_spans([empty], [empty]).accuracy == 0.0


def test_other_texts_are_refused() -> None:
    with pytest.raises(LinkingError, match="text 0 differs"):
        score_links([GOLD], [LinkedText("other", ())])
    with pytest.raises(LinkingError, match="1 gold texts but 0"):
        score_spans([GOLD], [])


def test_ratios_of_nothing_are_zero() -> None:
    score = LinkScore(n_gold=0, n_predicted=0, n_correct=0)
    assert (score.precision, score.recall, score.f1) == (0.0, 0.0, 0.0)
    ratios = SpanScore(n_gold=0, n_correct=0, n_in_candidates=0)
    assert (ratios.accuracy, ratios.candidate_recall) == (0.0, 0.0)


def outcome(gold: str | None) -> Outcome:
    return Outcome(0, Mention(0, 2), gold, gold is not None, True, gold, 0)


def test_bins_of_popularity_go_by_powers() -> None:
    counts = {"a": 0, "b": 1, "c": 9, "d": 10, "e": 99, "f": 100}
    outcomes_of_labels = [*map(outcome, ["f", "a", "b", "c", "d", "e", "unknown", None])]
    actual = popularity_bins(outcomes_of_labels, counts)
    assert {name: score.n_gold for name, score in actual.items()} == {
        "0": 2, "1-9": 2, "10-99": 2, "100-999": 1,
    }  # fmt: skip
    assert [*actual] == ["0", "1-9", "10-99", "100-999"]
    assert [*popularity_bins(outcomes_of_labels[:1], counts, base=2)] == ["64-127"]
    assert popularity_bins([outcome(None), outcome("b")], counts.__getitem__).keys() == {"1-9"}
    with pytest.raises(ScoreError, match="base is 1"):
        popularity_bins(outcomes_of_labels, counts, base=1)
    with pytest.raises(ScoreError, match="-1 times"):
        popularity_bins(outcomes_of_labels, lambda _: -1)
