"""Scores by hand, against scikit-learn, and what goes beside them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support

from entity_linking.mentions import LinkedText, Mention
from kept.evaluation.tagging import span_counts, tagged_spans
from kept.randomness import generator
from kept.tasks.datasets.formats import TaskExample
from kept.tasks.kinds import MULTI, REGRESSION, SINGLE, TAGGING
from kept.tasks.scores.scores import Baseline, scores


def examples_of(labels: list[tuple[str, ...]]) -> list[TaskExample]:
    return [TaskExample(LinkedText(f"text {i}", ()), label) for i, label in enumerate(labels)]


def of_words(text: str, tags: str) -> TaskExample:
    words, start, targets = text.split(), 0, []
    for word in words:
        targets.append(Mention(start, start + len(word)))
        start += len(word) + 1
    return TaskExample(LinkedText(text, ()), tuple(tags.split()), tuple(targets))


def scores_of(predicted, examples, kind, no_relation=None):  # type: ignore[no-untyped-def]
    draws = generator(0, "t")
    return scores(predicted, examples, problem_type=kind, no_relation=no_relation, generator=draws)


def test_single_labels_agree_with_scikit_learn() -> None:
    draws = np.random.default_rng(0)
    names = np.array(["NA", "a", "b", "c"])
    gold, ours = names[draws.integers(4, size=60)], names[draws.integers(4, size=60)]
    result = scores_of([(n,) for n in ours], examples_of([(n,) for n in gold]), SINGLE, "NA")
    expected = f1_score(gold, ours, labels=["a", "b", "c"], average="micro")
    assert result["micro"]["f1"] == pytest.approx(expected)
    p, r, f, _ = precision_recall_fscore_support(gold, ours, average="macro")
    assert result["macro"] == pytest.approx({"precision": p, "recall": r, "f1": f})
    assert result["accuracy"]["estimate"] == pytest.approx((gold == ours).mean())
    interval = result["micro"]["f1_interval"]
    assert interval["low"] < result["micro"]["f1"] == pytest.approx(interval["estimate"])
    assert interval["estimate"] < interval["high"]
    assert "macro" in result
    plain = scores_of([(n,) for n in ours], examples_of([(n,) for n in gold]), SINGLE)
    assert plain["micro"]["f1"] == pytest.approx(plain["accuracy"]["estimate"])


def test_types_are_strict_micro_and_loose_macro() -> None:
    gold = [("a", "b"), ("a",), (), ("b",)]
    ours = [("a",), ("a",), (), ("a", "c")]
    result = scores_of(ours, examples_of(gold), MULTI)
    assert result["accuracy"]["estimate"] == 0.5
    assert result["micro"]["precision"] == pytest.approx(2 / 4)
    assert result["micro"]["recall"] == pytest.approx(2 / 4)
    assert result["macro"]["precision"] == pytest.approx((1 + 1 + 0 + 0) / 4)
    assert result["macro"]["recall"] == pytest.approx((0.5 + 1 + 0 + 0) / 4)


def test_tagged_spans() -> None:
    assert tagged_spans([]) == []
    assert tagged_spans(["O", "B-x", "I-x", "I-y", "O", "I-x"]) == [
        (1, 3, "x"), (3, 4, "y"), (5, 6, "x")
    ]  # fmt: skip
    assert tagged_spans(["B-a-b", "I-a-b", "B-", "x"]) == [(0, 2, "a-b")]
    gold = [["B-x", "I-x", "O", "B-y"], ["O"]]
    ours = [["B-x", "O", "O", "B-y"], ["B-x"]]
    assert span_counts(ours, gold) == [(1, 2, 2), (0, 1, 0)]


def test_tagging_counts_spans_and_words() -> None:
    examples = [of_words("New York is big", "B-x I-x O O"), of_words("in Rome", "O B-x")]
    result = scores_of([("B-x", "O", "O", "O"), ("O", "B-x")], examples, TAGGING)
    assert result["accuracy"]["estimate"] == pytest.approx(5 / 6)
    assert result["micro"]["f1"] == pytest.approx(0.5)
    assert "macro" not in result


def test_baselines() -> None:
    train = examples_of([("b",), ("a",), ("b",)])
    assert Baseline.of(train, SINGLE).answers(train, SINGLE) == [("b",)] * 3
    tie = examples_of([("b",), ("a",)])
    assert Baseline.of(tie, SINGLE).labels == ("a",)
    typed = examples_of([("b", "a"), ("a", "b"), ()])
    assert Baseline.of(typed, MULTI).labels == ("a", "b")
    words = [
        of_words("Rome is old", "B-x O O"),
        of_words("Rome wins", "B-y O"),
        of_words("old Rome", "O B-y"),
    ]
    tags = Baseline.of(words, TAGGING).answers([of_words("Rome and old", "O O O")], TAGGING)
    assert tags == [("B-y", "O", "O")]


def test_one_group_has_no_interval() -> None:
    examples = examples_of([("a",)])
    result = scores_of([("a",)], examples, SINGLE)
    assert result["accuracy"] == {"estimate": 1.0, "low": None, "high": None, "n": 1}
    pair = [TaskExample(LinkedText(str(i), ()), ("a",), (), ("Q1", "Q2")) for i in range(5)]
    assert scores_of([("a",)] * 5, pair, SINGLE)["accuracy"]["n"] == 1


def test_a_regression_has_correlations_by_group() -> None:
    draws = np.random.default_rng(0)
    gold = draws.normal(size=50).round(3)
    ours = (gold + draws.normal(size=50)).round(3)
    examples = examples_of([(str(n),) for n in gold])
    result = scores_of([(str(n),) for n in ours], examples, REGRESSION)
    assert list(result) == ["pearson", "spearman", "mean_squared_error"]
    assert result["pearson"]["estimate"] == pytest.approx(np.corrcoef(ours, gold)[0, 1])
    assert result["pearson"]["low"] < result["pearson"]["estimate"] < result["pearson"]["high"]
    twice = scores_of([(str(n),) for n in (*ours, *ours)], examples * 2, REGRESSION)
    assert twice["pearson"]["n"] == 50
    assert twice["pearson"]["low"] == pytest.approx(result["pearson"]["low"])
    base = Baseline.of(examples, REGRESSION).answers(examples, REGRESSION)
    of_mean = scores_of(base, examples, REGRESSION)
    assert of_mean["mean_squared_error"]["estimate"] == pytest.approx(gold.var(), abs=1e-5)
    assert of_mean["pearson"]["estimate"] == 0
    alone = scores_of([("1",)], examples[:1], REGRESSION)
    assert (alone["pearson"]["low"], alone["pearson"]["n"]) == (None, 1)
