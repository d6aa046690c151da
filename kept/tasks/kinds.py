"""Kinds of tasks: one object says what a kind learns, how it answers, and how it is judged.

A task is a line of `TASKS`: its kind, its head, and what its files hold. Nothing else in kept
compares the name of a kind; it asks the object.

Axis legend: batch, node, class, row (of a batch; an item has one, or several).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from kept.batches import IGNORE
from kept.errors import BatchError, ConfigError
from kept.evaluation.classification import macro_scores, typing_scores
from kept.evaluation.correlation import CORRELATIONS
from kept.evaluation.exact_match import exact_match, token_f1
from kept.evaluation.tagging import span_counts
from kept.layers.means import mean_of
from kg_loaders import plugins
from kg_loaders.errors import PluginError
from kg_loaders.plugins import Plugin, Table

SINGLE, MULTI = "single_label_classification", "multi_label_classification"
TAGGING = "token_classification"
REGRESSION = "regression"
SPAN = "span_extraction"
CHOICE = "multiple_choice"
LINKING = "entity_linking"
SCORE = "score"
"""The one class of a regression, of a choice, and of a linking."""
START_END = ("start", "end")
"""The classes of a span."""
OUTSIDE = "O"
"""The tag of a word that is in no span, and the answer for a word without a node."""
NO_ANSWER = ""
"""The answer to a question that has none."""

Labels = tuple[str, ...]
Answer = TypeVar("Answer", str, Labels)
Rows = Literal["one", "windows", "choices"]
"""The rows of an item: one, one a window of its context, or one a choice."""
Form = Literal["classification", "mention", "relation", "tagging", "span", "choice"]
"""What a line of a file holds: its columns are `kept.tasks.datasets.unlabelled.NEEDS`."""


class ScoredSpan(Protocol):
    """A stretch of a text, and its score; `end` 0 is no answer."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def score(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """The labels of one item, and how likely the model holds each, uncalibrated.

    `confidence` has a number for each label: of a class its probability, of a type that of this
    type, of a tag that of its word (None for a word without a node), of a span its share among the
    best spans, of a choice its share among the choices; None for a regression.
    """

    labels: Labels
    confidence: tuple[float | None, ...]


@dataclass(frozen=True)
class ScoredItem:
    """What a model says of one item: the `logits` of its rows, and what its answer is read from.

    `words` returns where each of its words is, `[word 2]`, nodes of all rows counted through;
    `spans` the best spans of its `text`.
    """

    logits: Tensor
    classes: Sequence[str]
    threshold: float
    text: str
    words: Callable[[], list[list[int]]]
    spans: Callable[[], Sequence[ScoredSpan]]


class TaskKind:
    """A kind of task; as it stands, one of several classes for each text.

    `name` is the `problem_type` of a model's configuration. `rows` says what an item is made of.
    `labels_nodes`: its labels are those of nodes (`node_labels`), one a word. `has_classes`: what
    it answers are the labels of training; `has_unordered_classes`: numbers as labels are likely a
    slip. `has_one_answer`: one row of logits is the answer to a text. `has_right_answers`: an
    answer is right or wrong. `needs_whole_targets`: an item whose target is cut off cannot be
    evaluated. `asks_about_targets`: targets are what is classified, not words or choices. `is_set`:
    the order of its labels means nothing. `fits_by` is the score by which `kept fit` chooses.
    """

    name: ClassVar[str]
    rows: ClassVar[Rows] = "one"
    labels_nodes: ClassVar[bool] = False
    has_classes: ClassVar[bool] = True
    has_unordered_classes: ClassVar[bool] = False
    has_one_answer: ClassVar[bool] = True
    has_right_answers: ClassVar[bool] = True
    needs_whole_targets: ClassVar[bool] = True
    asks_about_targets: ClassVar[bool] = True
    is_set: ClassVar[bool] = False
    fits_by: ClassVar[Literal["accuracy", "f1"]] = "accuracy"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch; raises `BatchError` for labels that do not fit."""
        self.require_shape(labels, logits.shape[:-1])
        return _cross_entropy(logits, labels)

    def require_shape(self, labels: Tensor, shape: Sequence[int]) -> None:
        """Raise `BatchError` where labels have another shape."""
        if tuple(labels.shape) != tuple(shape):
            raise BatchError(
                f"labels have shape {tuple(labels.shape)}, {self.name} needs {tuple(shape)}"
            )

    def classes(self, labels: Sequence[Labels]) -> list[str]:
        """Return the classes of a model for the labels of its training, sorted."""
        return sorted({label for each in labels for label in each})

    def label_fields(
        self,
        labels: Labels,
        numbers: Mapping[str, int],
        node_ids: Tensor,
        spans: NDArray[np.int64] | None,
    ) -> dict[str, Tensor]:
        """Return the fields of a batch of one that hold an example's labels, by their numbers.

        `spans` are the nodes of each target, `[target 2]`.
        """
        return {"labels": torch.tensor([numbers[name] for name in labels])}

    def shares(self, logits: Tensor) -> Tensor:
        """Return how likely each class is, `[... class]`."""
        return logits.softmax(-1)

    def answer(self, shares: Tensor, classes: Sequence[str], threshold: float) -> str:
        """Return the answer of `shares [class]` in words; `threshold` is one of logits."""
        return classes[int(shares.argmax())]

    def predict(self, item: ScoredItem) -> Prediction:
        """Return the answer to an item."""
        shares = self.shares(item.logits[0].double())
        best = int(item.logits[0].argmax())
        return Prediction((item.classes[best],), (float(shares[best]),))

    def fields_of(self, prediction: Prediction, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer as a line of a file has it; `fields` are those of the question."""
        return {"prediction": prediction.labels[0], "confidence": _places(prediction)[0]}

    def constant_warning(self, labels: Sequence[Labels]) -> str | None:
        """Return what to say where all labels of training are alike; of classes others say it."""
        return None

    def undefined_scores(self, labels: Sequence[Labels]) -> str | None:
        """Return which scores mean nothing for the labels of an evaluation split, and why."""
        return None

    def constant_answer(self, labels: Sequence[Labels]) -> Labels:
        """Return the answer without a model: the most frequent, of several the first by name."""
        return most_frequent([tuple(sorted(each)) for each in labels])

    def counts(
        self, predicted: Sequence[Labels], gold: Sequence[Labels], no_relation: str | None
    ) -> dict[str, Any]:
        """Return by metric the counts of each item, `[item count]`.

        Of `accuracy` and `micro`: right, found, to find; `no_relation` is no find of `micro`.
        """
        pairs = list(zip(predicted, gold, strict=True))
        return {
            "accuracy": [(int(set(p) == set(g)), 1, 1) for p, g in pairs],
            "micro": [_overlap({*p} - {no_relation}, {*g} - {no_relation}) for p, g in pairs],
        }

    def macro(self, predicted: Sequence[Labels], gold: Sequence[Labels]) -> dict[str, float] | None:
        """Return precision, recall and F1 as means over classes; None where there are none."""
        names = sorted({label for labels in (*predicted, *gold) for label in labels})
        numbers = {name: i for i, name in enumerate(names)}
        ours, theirs = (
            np.array([numbers[labels[0]] for labels in side], np.int64)
            for side in (predicted, gold)
        )
        return _plain(macro_scores(ours, theirs))

    def headline(self, scores: Mapping[str, Any]) -> tuple[str, float | None]:
        """Return the name and value of the score to compare with a baseline's; more is better."""
        return "accuracy", scores["accuracy"]["estimate"]


class SingleLabel(TaskKind):
    """One of several classes for each text: cross entropy, `labels [batch]`."""

    name = SINGLE
    has_unordered_classes = True


class MultiLabel(TaskKind):
    """Any of several classes: binary cross entropy over all of them, `labels [batch class]`."""

    name = MULTI
    is_set = True
    fits_by = "f1"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        self.require_shape(labels, logits.shape)
        total = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")
        return mean_of(total, labels.numel())

    def label_fields(
        self,
        labels: Labels,
        numbers: Mapping[str, int],
        node_ids: Tensor,
        spans: NDArray[np.int64] | None,
    ) -> dict[str, Tensor]:
        many = torch.zeros(1, len(numbers))
        many[0, [numbers[name] for name in labels]] = 1
        return {"labels": many}

    def shares(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def answer(self, shares: Tensor, classes: Sequence[str], threshold: float) -> str:
        least = float(torch.tensor(threshold, dtype=torch.float64).sigmoid())
        return ", ".join(name for name, s in zip(classes, shares, strict=True) if s > least)

    def predict(self, item: ScoredItem) -> Prediction:
        logits = item.logits[0]
        numbers = (logits > item.threshold).nonzero()[:, 0].tolist()
        shares = self.shares(logits.double())
        labels = tuple(item.classes[n] for n in numbers)
        return Prediction(labels, tuple(float(shares[n]) for n in numbers))

    def fields_of(self, prediction: Prediction, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"prediction": list(prediction.labels), "confidence": _places(prediction)}

    def macro(self, predicted: Sequence[Labels], gold: Sequence[Labels]) -> dict[str, float] | None:
        """Means over items (loose)."""
        names = sorted({label for labels in (*predicted, *gold) for label in labels})
        ours, theirs = (
            np.array([[name in labels for name in names] for labels in side], np.int64)
            for side in (predicted, gold)
        )
        return _plain(typing_scores(ours, theirs, threshold=0.5).macro)


class Tagging(TaskKind):
    """A tag for each word: cross entropy over nodes, `node_labels [batch node]`."""

    name = TAGGING
    labels_nodes = True
    has_one_answer = False
    needs_whole_targets = False
    asks_about_targets = False
    fits_by = "f1"

    def label_fields(
        self,
        labels: Labels,
        numbers: Mapping[str, int],
        node_ids: Tensor,
        spans: NDArray[np.int64] | None,
    ) -> dict[str, Tensor]:
        at_nodes = torch.full_like(node_ids, IGNORE)
        for (start, stop), name in zip(spans if spans is not None else [], labels, strict=True):
            if start < stop:
                at_nodes[0, start] = numbers[name]
        return {"node_labels": at_nodes}

    def predict(self, item: ScoredItem) -> Prediction:
        """The best class at the first node of every word; OUTSIDE for a word without a node."""
        logits = item.logits.flatten(0, 1)
        best = logits.argmax(dim=1).tolist()
        shares = self.shares(logits.double()).amax(dim=1).tolist()
        places = [start if start < stop else None for start, stop in item.words()]
        labels = tuple(OUTSIDE if n is None else item.classes[best[n]] for n in places)
        return Prediction(labels, tuple(None if n is None else shares[n] for n in places))

    def fields_of(self, prediction: Prediction, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"prediction": list(prediction.labels), "confidence": _places(prediction)}

    def counts(
        self, predicted: Sequence[Labels], gold: Sequence[Labels], no_relation: str | None
    ) -> dict[str, Any]:
        """Of accuracy each word finds and wants one; of micro each span."""
        exact = []
        for p, g in zip(predicted, gold, strict=True):
            exact.append((sum(a == b for a, b in zip(p, g, strict=True)), len(g), len(g)))
        return {"accuracy": exact, "micro": span_counts(predicted, gold)}

    def macro(self, predicted: Sequence[Labels], gold: Sequence[Labels]) -> None:
        return None

    def headline(self, scores: Mapping[str, Any]) -> tuple[str, float | None]:
        return "F1", scores["micro"]["f1"]


class Regression(TaskKind):
    """A number for each text: mean squared error of the one output, `labels [batch]` numbers."""

    name = REGRESSION
    has_classes = False
    has_right_answers = False

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        self.require_shape(labels, logits.shape[:-1])
        if logits.shape[-1] != 1:
            raise BatchError(f"a regression has one output, this head has {logits.shape[-1]}")
        if not bool(labels.isfinite().all()):
            raise BatchError("a regression learns finite numbers; a label is not one")
        total = F.mse_loss(logits[..., 0], labels.to(logits.dtype), reduction="sum")
        return mean_of(total, len(labels))

    def classes(self, labels: Sequence[Labels]) -> list[str]:
        return [SCORE]

    def label_fields(
        self,
        labels: Labels,
        numbers: Mapping[str, int],
        node_ids: Tensor,
        spans: NDArray[np.int64] | None,
    ) -> dict[str, Tensor]:
        return {"labels": torch.tensor([float(label) for label in labels])}

    def shares(self, logits: Tensor) -> Tensor:
        """The numbers themselves."""
        return logits

    def answer(self, shares: Tensor, classes: Sequence[str], threshold: float) -> str:
        return f"{float(shares[0]):.6f}"

    def predict(self, item: ScoredItem) -> Prediction:
        """The number, as text of six places."""
        return Prediction((f"{float(item.logits[0][0]):.6f}",), (None,))

    def fields_of(self, prediction: Prediction, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"prediction": float(prediction.labels[0]), "confidence": _places(prediction)[0]}

    def constant_warning(self, labels: Sequence[Labels]) -> str | None:
        scores = {float(label) for each in labels for label in each}
        if len(scores) != 1:
            return None
        only = f"every training score is {scores.pop()}: a model learns that number alone, and"
        return f"{only} correlations say nothing"

    def undefined_scores(self, labels: Sequence[Labels]) -> str | None:
        scores = {float(label) for each in labels for label in each}
        return (
            f"every score is {scores.pop()}: correlations say nothing" if len(scores) == 1 else None
        )

    def constant_answer(self, labels: Sequence[Labels]) -> Labels:
        """The mean."""
        return (f"{np.mean([float(each[0]) for each in labels]):.6f}",)

    def counts(
        self, predicted: Sequence[Labels], gold: Sequence[Labels], no_relation: str | None
    ) -> dict[str, Any]:
        """The parts of each correlation."""
        ours, theirs = ([float(labels[0]) for labels in side] for side in (predicted, gold))
        return {name: parts(ours, theirs) for name, (parts, _) in CORRELATIONS.items()}

    def headline(self, scores: Mapping[str, Any]) -> tuple[str, float | None]:
        return "mean squared error", -scores["mean_squared_error"]["estimate"]


class SpanExtraction(TaskKind):
    """A stretch of a context: cross entropy over its nodes, the mean of first and last one.

    `labels [batch 2]`; the classes are `START_END`.
    """

    name = SPAN
    rows = "windows"
    has_classes = False
    has_one_answer = False
    needs_whole_targets = False

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        by_node = logits.movedim(1, -1)  # the nodes are the classes, of start and of end
        self.require_shape(labels, by_node.shape[:-1])
        return _cross_entropy(by_node, labels)

    def classes(self, labels: Sequence[Labels]) -> list[str]:
        return [*START_END]

    def predict(self, item: ScoredItem) -> Prediction:
        """The words of the best span, "" for no answer; its share among the best spans."""
        spans = item.spans()
        answer = answer_of(item.text, spans, item.threshold)
        if not spans:
            return Prediction((answer,), (None,))
        shares = torch.tensor([span.score for span in spans], dtype=torch.float64).softmax(0)
        is_answer = [item.text[span.start : span.end] == answer for span in spans]
        return Prediction((answer,), (float(shares[torch.tensor(is_answer)].sum()),))

    def constant_warning(self, labels: Sequence[Labels]) -> str | None:
        if not labels or any(answer != NO_ANSWER for each in labels for answer in each):
            return None
        only = f"none of the {len(labels)} training questions has an answer"
        return f"{only}: a model learns to give none"

    def constant_answer(self, labels: Sequence[Labels]) -> Labels:
        return most_frequent([each[:1] for each in labels])

    def counts(
        self, predicted: Sequence[Labels], gold: Sequence[Labels], no_relation: str | None
    ) -> dict[str, Any]:
        """Exact match, and F1 of the words."""
        pairs = [("".join(p), g) for p, g in zip(predicted, gold, strict=True)]
        return {
            "accuracy": [(exact_match(answer, g), 1, 1) for answer, g in pairs],
            "micro": [(token_f1(answer, g), 1, 1) for answer, g in pairs],
        }

    def macro(self, predicted: Sequence[Labels], gold: Sequence[Labels]) -> None:
        return None


class MultipleChoice(TaskKind):
    """The best of a question's choices, a row each: cross entropy over them; one class, `SCORE`.

    `labels [batch]` are the number of the right choice at a question's first row, and IGNORE at its
    others.
    """

    name = CHOICE
    rows = "choices"
    has_classes = False
    has_one_answer = False
    asks_about_targets = False

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        self.require_shape(labels, logits.shape[:-1])
        return _cross_entropy(*_by_question(logits, labels))

    def classes(self, labels: Sequence[Labels]) -> list[str]:
        return [SCORE]

    def predict(self, item: ScoredItem) -> Prediction:
        """The number of the best choice, from "1"."""
        shares = item.logits[:, 0].double().softmax(0)
        best = int(shares.argmax())
        return Prediction((str(best + 1),), (float(shares[best]),))

    def fields_of(self, prediction: Prediction, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The words of the best choice, and under `choice` its number from 1."""
        number = int(prediction.labels[0])
        words = fields["choices"][number - 1]
        return {"prediction": words, "choice": number, "confidence": _places(prediction)[0]}

    def macro(self, predicted: Sequence[Labels], gold: Sequence[Labels]) -> None:
        return None


class EntityLinking(TaskKind):
    """None or one of the candidates of a text's first mention, `labels [batch]` 0 for none."""

    name = LINKING

    def classes(self, labels: Sequence[Labels]) -> list[str]:
        return [SCORE]


_KINDS: dict[str, TaskKind] = {
    kind.name: kind
    for kind in (
        *(SingleLabel(), MultiLabel(), Tagging(), Regression()),
        *(SpanExtraction(), MultipleChoice(), EntityLinking()),
    )
}


def task_kind(name: str | None) -> TaskKind:
    """Return the kind of a model's `problem_type`; raises `ConfigError` with all names.

    The kind of a plugin has the name of its task, whose entry point brings it.
    """
    if name in _KINDS:
        return _KINDS[name]
    tasks = [task for task in TASKS if task not in TASKS.built_in]
    if name in tasks:
        return TASKS[name].kind
    raise ConfigError(f"problem_type is {name!r}; use {', '.join(map(repr, (*_KINDS, *tasks)))}")


# ---- tasks ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Task:
    """What a task asks; `head` (a line of `HEADS`), its options and `markers` are the defaults.

    `problem_type` is the name of its kind, or a kind of its own. `form` is what a line of a file
    holds. `has_pair`: it asks about two entities, whose own facts are never shown.
    """

    problem_type: str
    head: str
    head_options: dict[str, int] = field(default_factory=dict)
    markers: str = "none"
    form: Form = "classification"
    has_pair: bool = False
    own_kind: TaskKind | None = None

    @property
    def kind(self) -> TaskKind:
        """The kind of the task."""
        return self.own_kind or task_kind(self.problem_type)


_TWO, _ONE = {"n_targets": 2}, {"n_targets": 1}
_BUILT_IN: dict[str, Task] = {
    "relation": Task(SINGLE, "targets", _TWO, "kadapter", "relation", has_pair=True),
    "document_relations": Task(MULTI, "targets", _TWO, "kadapter", "relation", has_pair=True),
    "mention": Task(SINGLE, "targets", _ONE, "kadapter", "mention"),
    "typing": Task(MULTI, "targets", _ONE, "kadapter", "mention"),
    "classification": Task(SINGLE, "pooled"),
    "regression": Task(REGRESSION, "pooled"),
    "tagging": Task(TAGGING, "tagging", form="tagging"),
    "span": Task(SPAN, "span", form="span"),
    "span_or_none": Task(SPAN, "span", {"no_answer": True}, form="span"),
    "multiple_choice": Task(CHOICE, "pooled", form="choice"),
}


def _require_own_name(plugin: Plugin, task: Task) -> None:
    if task.own_kind is not None and not task.problem_type == task.own_kind.name == plugin.name:
        raise PluginError(
            f"the plugin {plugin} in {plugin.group}: problem_type is {task.problem_type!r} and the "
            f"name of its kind {task.own_kind.name!r}; both must be {plugin.name!r}, by which a "
            "saved model finds its kind"
        )


TASKS = Table(plugins.TASKS, _BUILT_IN, kind=Task, what="task", check=_require_own_name)
"""Every task by its name: those of kept, then those of plugins."""


# ---- what kinds share ----------------------------------------------------------------------------
def most_frequent(answers: Sequence[Answer]) -> Answer:
    """Return the most frequent answer; ties go to the one that sorts first."""
    counts = Counter(answers)
    return min(counts, key=lambda answer: (-counts[answer], answer))


def answer_of(text: str, spans: Sequence[ScoredSpan], threshold: float) -> str:
    """The words of the best of `spans` (`TaskData.answers`); "" if none is by more than `threshold`
    better than no answer, where that is among them."""
    none = next((span.score for span in spans if not span.end), None)
    best = next((span for span in spans if span.end), None)
    if best is None or (none is not None and best.score - none <= threshold):
        return NO_ANSWER
    return text[best.start : best.end]


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    is_labelled = labels != IGNORE
    outside = is_labelled & ((labels < 0) | (labels >= logits.shape[-1]))
    if bool(outside.any()):
        raise BatchError(
            f"label {int(labels[outside][0])} is outside the {logits.shape[-1]} classes"
        )
    flat = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum"
    )
    return mean_of(flat, is_labelled.sum())


def _by_question(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of choices `[batch 1]` as `[question choice]`, the lowest where there are fewer.

    Raises `BatchError` for rows before a question's first, and a label beyond its choices.
    """
    begins = labels != IGNORE
    if scores.shape[-1] != 1 or not bool(begins[0]):
        raise BatchError(
            f"a choice needs one output, but this head has {scores.shape[-1]}; the first row "
            f"of each question gives the right choice, but the batch begins with {int(labels[0])}"
        )
    question, (first,) = begins.cumsum(0) - 1, begins.nonzero(as_tuple=True)
    sizes, right = question.bincount(), labels[begins]
    beyond = right >= sizes
    if bool(beyond.any()):
        n = int(sizes[beyond][0])
        raise BatchError(f"label {int(right[beyond][0])} is outside the {n} classes")
    positions = torch.arange(len(labels), device=labels.device) - first[question]
    table = scores.new_full((len(first), int(sizes.max())), torch.finfo(scores.dtype).min)
    return table.index_put((question, positions), scores[:, 0]), right


def _places(prediction: Prediction) -> list[float | None]:
    """Confidences as files have them, of six places."""
    return [None if c is None else round(c, PLACES) for c in prediction.confidence]


PLACES = 6


def _overlap(ours: set[Any], gold: set[Any]) -> tuple[int, int, int]:
    return len(ours & gold), len(ours), len(gold)


def _plain(interval: Any) -> dict[str, float]:
    return {name: value for name, value in asdict(interval).items() if name != "n"}
