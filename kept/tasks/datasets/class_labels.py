"""The classes of a task, and numbers that stand where classes are asked for.

A graded score read as a class trains without a word: every distinct number is a class of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from kept.errors import ConfigError
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import task_kind
from kg_loaders.reading.digits import decimal_number

_WHOLE = re.compile(r"[+-]?[0-9]+")
MOST_SHOWN = 5


def not_a_number(label: str) -> str | None:
    """What is wrong with a score: None for a finite number."""
    return None if _number(label) is not None else f"the score {label!r} is not a finite number"


def classes_of(examples: Iterable[TaskExample], problem_type: str) -> list[str]:
    """The classes of a task's training examples (`TaskKind.classes`).

    ConfigError: the one label of each text is a number with a fraction, so it is a score.
    """
    kind = task_kind(problem_type)
    labels = kind.classes([example.labels for example in examples])
    if (
        kind.has_unordered_classes
        and _are_numbers(labels)
        and not all(map(_WHOLE.fullmatch, labels))
    ):
        raise ConfigError(
            f"the labels of a classification are numbers with a fraction ({listed(labels)}): "
            f"{len(labels)} classes without order. If they are scores, give --task regression "
            "--format scores (stsb for STS-B's files); if they name classes, write them as words"
        )
    return labels


def require_labels(labels: Sequence[str], n_examples: int) -> None:
    """Raise `ConfigError` where none of the training examples has a label."""
    if not labels:
        raise ConfigError(
            f"none of the {n_examples} training examples has a label: there is nothing to learn; "
            "give a file whose examples have labels (and its format)"
        )


def label_warnings(
    labels: Sequence[str], problem_type: str, evaluation: Mapping[str, Sequence[TaskExample]]
) -> list[str]:
    """Return what to say of a single class, and of labels that training never shows.

    `evaluation`: the examples of each evaluation split by its name.
    """
    if not task_kind(problem_type).has_classes:
        return []
    lines = []
    if len(labels) == 1:
        lines.append(
            f"every training label is {labels[0]!r}: with one class every model is right, so "
            f"accuracy means nothing"
        )
    label_set = set(labels)
    for name, examples in evaluation.items():
        unknown = sorted({each for e in examples for each in e.labels} - label_set)
        n = sum(not label_set.issuperset(example.labels) for example in examples)
        if unknown:
            lines.append(
                f"{name}: {n} of {len(examples)} examples have a label that training never shows "
                f"({listed(unknown)}); they count as wrong"
            )
    return lines


def constant_warnings(
    examples: Sequence[TaskExample],
    problem_type: str,
    evaluation: Mapping[str, Sequence[TaskExample]],
) -> list[str]:
    """Return what to say of scores that are all one, and of questions without answers.

    `examples` are those of training, `evaluation` those of each evaluation split by its name;
    `label_warnings` does so for classes.
    """
    kind = task_kind(problem_type)
    warning = kind.constant_warning([example.labels for example in examples])
    lines = [] if warning is None else [warning]
    for name, split in evaluation.items():
        if undefined := kind.undefined_scores([example.labels for example in split]):
            lines.append(f"{name}: {undefined}")
    return lines


def warnings_of(labels: Sequence[str], problem_type: str) -> list[str]:
    """What to say of classes that look like a scale: three whole numbers or more."""
    if (
        not task_kind(problem_type).has_unordered_classes
        or len(labels) < 3
        or not _are_numbers(labels)
    ):
        return []
    warning = (
        f"the labels are the numbers {listed(labels)}: they are trained as {len(labels)} classes "
        "without order; where they are a scale, give --task regression --format scores"
    )
    return [warning]


def _are_numbers(labels: Sequence[str]) -> bool:
    return bool(labels) and all(_number(label) is not None for label in labels)


def _number(label: str) -> float | None:
    try:
        number = decimal_number(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def listed(labels: Sequence[str]) -> str:
    """Return the first labels, and how many there are besides."""
    more = f" and {len(labels) - MOST_SHOWN} others" if len(labels) > MOST_SHOWN else ""
    return ", ".join(labels[:MOST_SHOWN]) + more
