"""Counts of answers by hand: of each kind of task, right, found and to find."""

from __future__ import annotations

import pytest

from kept.tasks.kinds import MULTI, REGRESSION, SINGLE, SPAN, TAGGING
from kept.tasks.scores.counts import item_counts


def counts(
    predicted: list[tuple[str, ...]], gold: list[tuple[str, ...]], kind: str, *,
    no_relation: str | None = None,
) -> dict[str, list[list[float]]]:  # fmt: skip
    counts_ = item_counts(predicted, gold, problem_type=kind, no_relation=no_relation)
    return {name: rows.tolist() for name, rows in counts_.items()}


def test_one_label_and_none_that_is_no_relation() -> None:
    counts_ = counts([("a",), ("none",), ("b",)], [("a",), ("a",), ("none",)], SINGLE,
                   no_relation="none")  # fmt: skip
    assert counts_ == {
        "accuracy": [[1, 1, 1], [0, 1, 1], [0, 1, 1]],
        "micro": [[1, 1, 1], [0, 0, 1], [0, 1, 0]],
    }


def test_any_number_of_labels() -> None:
    counts_ = counts([("a", "b"), ()], [("b", "a"), ("c",)], MULTI)
    assert counts_ == {"accuracy": [[1, 1, 1], [0, 1, 1]], "micro": [[2, 2, 2], [0, 0, 1]]}


def test_tags_are_counted_by_words_and_by_spans() -> None:
    gold = [("B-PER", "I-PER", "O")]
    assert counts([("B-PER", "O", "O")], gold, TAGGING) == {
        "accuracy": [[2, 3, 3]], "micro": [[0, 1, 1]],
    }  # fmt: skip
    assert counts(gold, gold, TAGGING)["micro"] == [[1, 1, 1]]


def test_answers_in_words() -> None:
    counts_ = counts([("the Seine",), ("Rome",)], [("Seine",), ("Rome again",)], SPAN)
    assert counts_["accuracy"] == [[1, 1, 1], [0, 1, 1]]
    assert counts_["micro"][0] == [1, 1, 1]
    assert counts_["micro"][1] == pytest.approx([2 / 3, 1, 1])


def test_numbers_have_the_parts_of_correlations() -> None:
    counts_ = item_counts([("1.0",), ("2.0",)], [("2.0",), ("4.0",)], problem_type=REGRESSION,
                        no_relation=None)  # fmt: skip
    assert counts_
    assert all(len(rows) == 2 for rows in counts_.values())


def test_no_item_has_no_counts() -> None:
    counts_ = item_counts([], [], problem_type=SINGLE, no_relation=None)
    assert {name: rows.shape for name, rows in counts_.items()} == {
        "accuracy": (0, 3), "micro": (0, 3),
    }  # fmt: skip
    with pytest.raises(ValueError, match="zip"):
        item_counts([("a",)], [], problem_type=SINGLE, no_relation=None)
