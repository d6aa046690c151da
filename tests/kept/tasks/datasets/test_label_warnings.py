"""Labels are judged when they are read: none, a single one, and those that training never shows."""

from __future__ import annotations

import pytest

from entity_linking.mentions import LinkedText
from kept.errors import ConfigError
from kept.tasks.datasets.class_labels import classes_of, label_warnings, require_labels
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
