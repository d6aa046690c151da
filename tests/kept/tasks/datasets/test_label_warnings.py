"""Labels are judged when they are read: none, a single one, and those that training never shows."""

from __future__ import annotations

import random

import pytest

from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.tasks.datasets.class_labels import (
    classes_of,
    constant_warnings,
    label_warnings,
    require_labels,
)
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import CHOICE, MULTI, REGRESSION, SINGLE, SPAN, TAGGING


def examples(*labels: tuple[str, ...]) -> list[TaskExample]:
    return [TaskExample(LinkedText(f"text {i}", (), f"{i}"), each) for i, each in enumerate(labels)]


@pytest.mark.parametrize("kind", [SINGLE, MULTI, TAGGING])
def test_no_label_at_all_is_refused_before_training(kind: str) -> None:
    labels = classes_of(examples((), (), ()), kind)
    with pytest.raises(ConfigError, match="none of the 3 training examples has a label"):
        require_labels(labels, 3)


@pytest.mark.parametrize("kind", [REGRESSION, SPAN, CHOICE])
def test_tasks_without_classes_are_not_judged_by_them(kind: str) -> None:
    require_labels(classes_of(examples(()), kind), 1)
    assert label_warnings(["x"], kind, {"dev": examples(("y",))}) == []


@pytest.mark.parametrize("kind", [SINGLE, MULTI, TAGGING])
def test_one_class_and_unknown_labels_are_said(kind: str) -> None:
    (line,) = label_warnings(["city"], kind, {"dev": examples(("city",), ())})
    assert "every training label is 'city'" in line
    lines = label_warnings(
        ["city", "river"],
        kind,
        {"dev": examples(("city",), ("lake", "sea"), ("lake",)), "test": examples(("river",))},
    )
    (line,) = lines
    assert line.startswith("dev: 2 of 3 examples have a label that training never shows (lake, sea")
    assert label_warnings(["city", "river"], kind, {"dev": examples(("river",))}) == []


@pytest.mark.parametrize(
    ("scores", "is_constant"),
    [
        (("3", "3"), True), (("3", "3.0", "3e0"), True), (("0", "-0"), True), (("1.5",), True),
        (("3", "4"), False), (("3", "3.0001"), False), ((), False),
    ],
)  # fmt: skip
def test_one_score_is_said(scores: tuple[str, ...], is_constant: bool) -> None:
    dev = examples(*((score,) for score in scores))
    lines = constant_warnings(dev, REGRESSION, {})
    assert ["every training score is" in line for line in lines] == [True] * is_constant
    lines = constant_warnings(examples(("1",), ("2",)), REGRESSION, {"dev": dev})
    says = [f"dev: every score is {float(scores[0])}: correlations say nothing"] if scores else []
    assert lines == says * is_constant


def test_questions_without_any_answer_are_said() -> None:
    for none in ((), ("",)):  # as SQuAD 2.0 writes an answer that is not there
        (line,) = constant_warnings(examples(none, none), SPAN, {})
        assert "none of the 2 training questions has an answer" in line
        assert constant_warnings(examples(none, ("Weir",)), SPAN, {}) == []
    assert constant_warnings([], SPAN, {}) == []
    for kind in (SINGLE, MULTI, TAGGING, CHOICE):
        same = examples(("a",), ("a",))
        assert constant_warnings(same, kind, {"dev": same}) == []


@pytest.mark.parametrize("seed", range(30))
def test_what_is_said_of_random_sets(seed: int) -> None:
    """Counted by hand: examples of dev with a label outside those of train."""
    draws = random.Random(seed)
    names = ["a", "b", "c", "d", "É", "e\u0301", " a"][: draws.randint(1, 7)]
    train = [tuple(draws.sample(names, draws.randint(0, min(2, len(names))))) for _ in range(4)]
    dev = [tuple(draws.sample([*names, "z"], draws.randint(0, 1))) for _ in range(6)]
    labels = classes_of(examples(*train), MULTI)
    assert labels == sorted({label for each in train for label in each})
    if not labels:
        with pytest.raises(ConfigError, match="nothing to learn"):
            require_labels(labels, 4)
        return
    n_unknown = sum(any(label not in labels for label in each) for each in dev)
    warnings = label_warnings(labels, MULTI, {"dev": examples(*dev)})
    assert len(warnings) == (len(labels) == 1) + (n_unknown > 0)
    assert not n_unknown or warnings[-1].startswith(f"dev: {n_unknown} of 6 examples have a label")
