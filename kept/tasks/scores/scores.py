"""Scores of a fine-tuned model with their counts, intervals and a baseline.

Axis legend: item (an example), class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kept.evaluation.correlation import CORRELATIONS
from kept.evaluation.paired import Value, by_cluster, score_interval
from kept.evaluation.statistics import bootstrap_interval
from kept.tasks.datasets.example import TaskExample, clusters
from kept.tasks.kinds import OUTSIDE, most_frequent, task_kind
from kept.tasks.scores.counts import Answers, Floats, item_counts
from kept.tasks.scores.official_scores import official_score


@dataclass(frozen=True)
class Baseline:
    """Answers without a model: the most frequent one of training, for words the word's own."""

    labels: tuple[str, ...]
    words: dict[str, str]

    @classmethod
    def of(cls, train: Sequence[TaskExample], problem_type: str) -> Baseline:
        """Counts `train`; ties go to the answer that sorts first. Of a regression, the mean."""
        kind = task_kind(problem_type)
        if not kind.labels_nodes:
            return cls(kind.constant_answer([example.labels for example in train]), {})
        by_word: dict[str, list[str]] = {}
        for example in train:
            for word, label in zip(_words(example), example.labels, strict=True):
                by_word.setdefault(word, []).append(label)
        return cls((), {word: most_frequent(tags) for word, tags in by_word.items()})

    def answers(self, examples: Sequence[TaskExample], problem_type: str) -> list[tuple[str, ...]]:
        """The baseline's answer to every item."""
        if not task_kind(problem_type).labels_nodes:
            return [self.labels] * len(examples)
        return [tuple(self.words.get(word, OUTSIDE) for word in _words(e)) for e in examples]


def scores(
    predicted: Answers,
    examples: Sequence[TaskExample],
    *,
    problem_type: str,
    no_relation: str | None,
    generator: np.random.Generator,
    format: str = "",
    train: Sequence[TaskExample] = (),
    cut_off: Sequence[tuple[TaskExample, tuple[str, ...]]] = (),
) -> dict[str, Any]:
    """All scores of a task as plain values.

    `accuracy`: share of items that are exactly right (single label, or the whole set of types:
    "strict"), of words for tagging. `micro`, `macro`: precision, recall and F1: over items and the
    mean over classes; for typing over labels and the mean over items (loose); for tagging over
    spans. Of answers in words `accuracy` is exact match, `micro` has the mean F1 of their words
    (`kept.evaluation.exact_match`). `no_relation` is never counted as a find in `micro`.
    Intervals are bootstraps over groups of examples (`kept.tasks.datasets.example.clusters`),
    without bounds where there are fewer than two.
    A regression has `pearson`, `spearman` and `mean_squared_error` instead
    (`kept.evaluation.correlation`), and no share of right answers.
    `official`: the score of the task's owners, where the file's `format` has one (see
    `official_scores`); some tell what was seen in `train`. It alone counts what is `cut_off`:
    questions that could not be read, each with the answer that is counted for it.
    """
    gold = [example.labels for example in examples]
    groups = clusters(examples)
    counts = item_counts(predicted, gold, problem_type=problem_type, no_relation=no_relation)
    kind = task_kind(problem_type)
    if not kind.has_right_answers:
        return {
            name: _correlation(CORRELATIONS[name][1], by_cluster(parts, groups), generator)
            for name, parts in counts.items()
        }
    exact, micro = counts["accuracy"], counts["micro"]
    result: dict[str, Any] = {
        "accuracy": _share(exact[:, 0], exact[:, 1], groups, generator),
        "micro": _prf(*micro.sum(axis=0).tolist()),
    }
    result["micro"]["f1_interval"] = _share(
        2 * micro[:, 0], micro[:, 1] + micro[:, 2], groups, generator
    )
    macro = kind.macro(predicted, gold)
    if macro is not None:
        result["macro"] = macro
    official = official_score(format, predicted, examples, train, generator, cut_off=cut_off)
    return result if official is None else result | {"official": official}


def _correlation(value: Value, sums: Floats, generator: np.random.Generator) -> dict[str, Any]:
    if len(sums) < 2:
        estimate = float(value(sums.sum(axis=0)[None])[0])
        return {"estimate": estimate, "low": None, "high": None, "n": len(sums)}
    return asdict(score_interval(sums, value, generator=generator))


def _prf(right: int, n_answered: int, n_gold: int) -> dict[str, Any]:
    precision, recall = right / n_answered if n_answered else 0.0, right / n_gold if n_gold else 0.0
    f1 = 2 * right / (n_answered + n_gold) if n_answered + n_gold else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}


def _share(
    parts: Floats, wholes: Floats, groups: Sequence[str], generator: np.random.Generator
) -> dict[str, Any]:
    """sum(parts) / sum(wholes) with an interval; groups are drawn as one."""
    rows = list(zip(parts.tolist(), wholes.astype(int).tolist(), groups, strict=True))
    values = [part / whole for part, whole, _ in rows for _ in range(whole)]
    keys = [group for _, whole, group in rows for _ in range(whole)]
    if len(set(keys)) < 2:
        estimate = float(np.mean(values)) if values else None
        return {"estimate": estimate, "low": None, "high": None, "n": len(set(keys))}
    return asdict(bootstrap_interval(values, clusters=keys, generator=generator))


def _words(example: TaskExample) -> list[str]:
    return [example.linked.text[target.start : target.end] for target in example.targets]
