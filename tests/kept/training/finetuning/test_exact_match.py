"""Exact match and F1 of answers: cases with results by hand, after the rules of SQuAD's script."""

from __future__ import annotations

import numpy as np
import pytest

from entity_linking.mentions import LinkedText
from kept.evaluation.exact_match import exact_match, token_f1
from kept.tasks.datasets.example import TaskExample
from kept.tasks.scores.official_scores import official_score


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("the Cat.", ["cat"], 1, 1),
        ("A  cat\tsat", ["cat sat", "dog"], 1, 1),
        ("cat", ["cat sat"], 0, 2 / 3),
        ("cat cat dog", ["cat dog dog"], 0, 2 / 3),
        ("dog", ["cat", "big dog", "dogs"], 0, 2 / 3),
        ("", [""], 1, 1),
        ("cat", [""], 0, 0),
        ("", ["cat"], 0, 0),
        ("the", [""], 1, 1),
        ("cat", ["the", "cat"], 1, 1),
        ("", ["the", "cat"], 0, 0),
        ("don't", ["dont"], 1, 1),
        ("theatre", ["atre"], 0, 0),
        ("half-life", ["halflife"], 1, 1),
        ("“cat”", ["cat"], 0, 0),
        ("in 2010", ["2010"], 0, 2 / 3),
    ],
)
def test_by_hand(answer: str, golds: list[str], exact: float, f1: float) -> None:
    assert exact_match(answer, golds) == exact
    assert token_f1(answer, golds) == pytest.approx(f1)


def test_the_official_score_of_a_set() -> None:
    golds = [("cat", "the big cat"), ("dog",), ("",), ("",)]
    examples = [TaskExample(LinkedText(f"q {i}", (), str(i)), g) for i, g in enumerate(golds)]
    answers = [("big cat",), ("",), ("",), ("cow",)]
    draws = np.random.default_rng(0)
    official = official_score("squad2", answers, examples, [], draws)
    assert official is not None
    assert (official["name"], official["estimate"]) == ("F1", 0.5)
    assert official["beside"] == {
        "exact match": 0.5, "F1 with an answer": 0.5, "exact match with an answer": 0.5,
        "right without an answer": 0.5,
    }  # fmt: skip
    plain = official_score("squad", [("cat",), ("dogs",)], examples[:2], [], draws)
    assert plain is not None
    assert (plain["estimate"], plain["beside"]) == (0.5, {"exact match": 0.5})
    unread = official_score("squad2", [()], examples[3:], [], draws)
    assert unread is not None
    assert unread["estimate"] == 0
