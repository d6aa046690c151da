"""Kinds of tasks: one object for each, and no comparison of their names elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import kept
from kept.batches import IGNORE
from kept.errors import BatchError, ConfigError
from kept.heads.model import HEADS
from kept.tasks import kinds
from kept.tasks.datasets.unlabelled import NEEDS
from kept.tasks.kinds import (
    CHOICE,
    LINKING,
    MULTI,
    REGRESSION,
    SINGLE,
    SPAN,
    TAGGING,
    TASKS,
    Prediction,
    ScoredItem,
    task_kind,
)

NAMES = (SINGLE, MULTI, TAGGING, REGRESSION, SPAN, CHOICE, LINKING)
CONSTANTS = {"SINGLE", "MULTI", "TAGGING", "REGRESSION", "SPAN", "CHOICE", "LINKING"}
LABELS = [("b", "a"), ("a",), ("b", "a")]


def scored(logits: list[list[float]], threshold: float = 0.0) -> ScoredItem:
    """An item with these logits, of the classes a, b and c."""
    return ScoredItem(
        logits=torch.tensor([logits]) if len(logits) > 1 else torch.tensor(logits),
        classes=("a", "b", "c"),
        threshold=threshold,
        text="old Paris",
        words=lambda: [[0, 1], [1, 1]],
        spans=list,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_is_found_by_its_name_and_labels_of_another_shape_are_refused(name: str) -> None:
    kind = task_kind(name)
    assert kind.name == name
    with pytest.raises(BatchError, match=rf"labels have shape \(7, 7, 7\), {name} needs"):
        kind.loss(torch.zeros(2, 3), torch.zeros(7, 7, 7))


def test_a_name_of_no_kind_is_an_error_with_all_names() -> None:
    with pytest.raises(
        ConfigError, match=r"problem_type is 'ranking'; use 'single_label.*linking'"
    ):
        task_kind("ranking")


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_a_kind_a_head_and_columns(name: str) -> None:
    task = TASKS[name]
    assert task.kind is task_kind(task.problem_type)
    assert task.head in HEADS
    assert task.form in NEEDS
    assert task.has_pair == (task.head_options.get("n_targets") == 2)


def test_losses_are_those_of_the_formulas() -> None:
    logits, labels = torch.tensor([[1.0, 2.0, 0.0], [0.5, 0.0, 0.0]]), torch.tensor([1, IGNORE])
    expected = -logits[0].log_softmax(0)[1]
    assert task_kind(SINGLE).loss(logits, labels).item() == pytest.approx(expected.item())
    many = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    p = logits.sigmoid()
    expected = -(many * p.log() + (1 - many) * (1 - p).log()).mean()
    assert task_kind(MULTI).loss(logits, many).item() == pytest.approx(expected.item())
    error = task_kind(REGRESSION).loss(logits[:, :1], torch.tensor([3.0, 0.5]))
    assert error.item() == pytest.approx(2.0)


def test_answers_are_read_from_logits() -> None:
    assert task_kind(SINGLE).predict(scored([[0.0, 3.0, 1.0]])).labels == ("b",)
    assert task_kind(MULTI).predict(scored([[1.0, -1.0, 2.0]])).labels == ("a", "c")
    assert task_kind(MULTI).predict(scored([[1.0, -1.0, 2.0]], threshold=1.5)).labels == ("c",)
    tags = task_kind(TAGGING).predict(scored([[0.0, 3.0, 1.0], [3.0, 0.0, 0.0]]))
    assert (tags.labels, tags.confidence[1]) == (("b", "O"), None)
    number = task_kind(REGRESSION).predict(scored([[2.5]]))
    assert number == Prediction(("2.500000",), (None,))
    assert task_kind(SPAN).predict(scored([[0.0]])) == Prediction(("",), (None,))
    choices = ScoredItem(torch.tensor([[0.0], [2.0]]), ("score",), 0.0, "", list, list)
    assert task_kind(CHOICE).predict(choices).labels == ("2",)


def test_answers_without_a_model() -> None:
    assert task_kind(SINGLE).constant_answer([("a",), ("b",), ("b",), ("a",)]) == ("a",)
    assert task_kind(MULTI).constant_answer(LABELS) == ("a", "b")
    assert task_kind(SPAN).constant_answer(LABELS) == ("b",)
    assert task_kind(REGRESSION).constant_answer([("1",), ("2",)]) == ("1.500000",)


def test_no_other_module_compares_the_name_of_a_kind() -> None:
    """As `==`, `!=`, `in`; a name may be given to a model, as converters do."""
    folder = Path(kept.__file__ or "").parent
    places = []
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = _names_of_kinds(tree)
        if not imported:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                if names & imported:
                    places.append(f"{file.relative_to(folder)}:{node.lineno}")
    assert len([file for file in folder.rglob("*.py") if file.name == "kinds.py"]) > 1
    assert places == []


def _names_of_kinds(tree: ast.Module) -> set[str]:
    """The constants that a module imports from the table of kinds."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == kinds.__name__:
            names |= {alias.asname or alias.name for alias in node.names}
    return names & CONSTANTS
