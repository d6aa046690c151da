"""Fine-tuning any method on any task: from a configuration to a model, its data and its scores.

Axis legend: item (an example), class, node, word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from entity_linking.corruption import CorruptionReport
from kept import hosts
from kept.batches import KnowledgeBatch
from kept.evaluation.correlation import CORRELATIONS
from kept.graphs.coverage import Coverage, caution
from kept.heads.model import KnowledgeForTask, Question
from kept.inputs.controls.link_errors import LinkErrors
from kept.randomness import generator
from kept.tasks.datasets.example import TaskExample
from kept.tasks.kinds import Prediction, ScoredItem, TaskKind, task_kind
from kept.tasks.scores.counts import Answers
from kept.tasks.scores.scores import Baseline, scores
from kept.training.finetuning.config import FinetuneConfig
from kept.training.finetuning.data import TaskData
from kept.training.finetuning.multitask import TaskMixture
from kept.training.processes.together import SINGLE_PROCESS, Processes

Set = Literal["dev", "test"]


@dataclass(frozen=True)
class FinetuneRun:
    """A model ready to be trained, its training data, its evaluation splits, and facts about them.

    `train` are the run's own examples, `data` is what is trained on: with `further` tasks, whose
    runs share the model, all of theirs. `task` is this run's number among them. `evaluation` holds
    its evaluation splits, and those of further tasks as `NAME/dev`. `with_link_errors` returns the
    data of one of its splits with other link errors than the run's, `evaluation_data` that of other
    examples, linked before (`assembly.linked`), as an evaluation split.
    """

    config: FinetuneConfig
    model: KnowledgeForTask
    tokenizer: PreTrainedTokenizerBase
    train: TaskData
    evaluation: dict[str, TaskData]
    baseline: Baseline
    facts: dict[str, Any]
    with_link_errors: Callable[[str, LinkErrors], tuple[TaskData, CorruptionReport]]
    evaluation_data: Callable[[Sequence[TaskExample]], TaskData]
    task: int = 0
    further: dict[str, FinetuneRun] = dataclasses.field(default_factory=dict)

    @property
    def data(self) -> TaskData | TaskMixture:
        """What the training loop reads."""
        if not self.further:
            return self.train
        config = self.config
        parts = [self.train, *(run.train for run in self.further.values())]
        weights = [config.weight, *(each.weight for each in config.also)]
        weights_given = [weight for weight in weights if weight is not None]
        mixing = 1.0 if config.mixing is None else config.mixing
        return TaskMixture(parts, weights=weights_given or None, mixing=mixing)

    @property
    def longest_text(self) -> int:
        """The word pieces that the host reads of a text, less what the view puts behind it."""
        n_positions = hosts.n_positions(self.model.encoder.host)
        return self.train.view.within_positions(n_positions, self.config.view or {})[0]

    @property
    def coverage(self) -> dict[str, Coverage]:
        """By split, those of further tasks as `NAME/train`: in how many the graph is shown."""
        sets = {"train": self.train, **self.evaluation}
        for name, run in self.further.items():
            sets |= {f"{name}/train": run.train}
        return {name: data.coverage for name, data in sets.items()}

    @property
    def cautions(self) -> list[str]:
        """One line for each split of which the method reads the graph in a low share of texts."""
        if self.config.knowledge == "off":
            return []
        lines = (caution(coverage.as_json(), name) for name, coverage in self.coverage.items())
        return [line for line in lines if line is not None]

    def evaluate(
        self, model: torch.nn.Module, step: int, *, together: Processes = SINGLE_PROCESS
    ) -> dict[str, float]:
        """Scores on dev while training, and the weights of mixed layers.

        Items are shared out over the processes that train `together`, which all call this.
        """
        dev_scores = self.score("dev", together=together)[1]
        correlations = {
            name: dev_scores[name]["estimate"] for name in CORRELATIONS if name in dev_scores
        }
        correlations = correlations or {
            "accuracy": dev_scores["accuracy"]["estimate"],
            "micro_f1": dev_scores["micro"]["f1"],
        }
        mix = self.model.layer_weights(self.task) or {"weights": []}
        correlations |= {f"weight of state {i}": weight for i, weight in enumerate(mix["weights"])}
        for name, run in self.further.items():
            scores = run.evaluate(model, step, together=together)
            correlations |= {f"{name}: {score}": value for score, value in scores.items()}
        return correlations

    def score(
        self, name: str, data: TaskData | None = None, *, together: Processes = SINGLE_PROCESS
    ) -> tuple[Answers, dict[str, Any]]:
        """Predictions for a set (or `data`, made of it), and its scores beside the baseline's;
        `together` as in `evaluate`."""
        task, _, set_name = name.rpartition("/")
        if task:
            return self.further[task].score(set_name, data, together=together)
        config, question = self.config, self.model.question(self.task)
        data = self.evaluation[name] if data is None else data
        kind = question.problem_type
        predicted = predict(
            self.model, data, threshold=config.threshold, task=self.task, together=together
        )
        answered = [
            scores(
                answers,
                data.examples,
                problem_type=kind,
                no_relation=config.no_relation,
                generator=generator(config.training.seed, "bootstrap", name),
                format=config.format,
                train=self.train.examples,
                cut_off=list(zip(data.cut_off, answers_cut_off, strict=True)),
            )
            for answers, answers_cut_off in (
                (predicted, [()] * len(data.cut_off)),
                (
                    self.baseline.answers(data.examples, kind),
                    self.baseline.answers(data.cut_off, kind),
                ),
            )
        ]
        labels, has_classes = set(question.labels), task_kind(kind).has_classes
        n_unknown = sum(
            has_classes and not labels.issuperset(example.labels) for example in data.examples
        )
        counts = {
            "n_asked": len(data) + sum(data.skipped.values()),
            "n_scored": len(data),
            "skipped": data.skipped,
            "n_with_labels_unseen_in_training": n_unknown,
            "coverage": data.coverage.as_json(),
        }
        return predicted, counts | answered[0] | {"baseline": answered[1]}

    def metrics(
        self, *, together: Processes = SINGLE_PROCESS
    ) -> tuple[dict[str, Any], dict[str, Answers]]:
        """Everything about the finished model, and its predictions by set; `together` as in
        `evaluate`."""
        predictions: dict[str, Answers] = {}
        metrics: dict[str, Any] = {}
        for name in self.evaluation:
            predictions[name], metrics[name] = self.score(name, together=together)
        if self.further:
            metrics["also"] = {name: run.described() for name, run in self.further.items()}
        return {**self.described(), **metrics}, predictions

    def described(self) -> dict[str, Any]:
        """What is known beside the scores, with the weights of mixed layers."""
        mix = self.model.layer_weights(self.task)
        return self.facts if mix is None else {**self.facts, "layer_mix": mix}


def predict(
    model: KnowledgeForTask,
    data: TaskData,
    *,
    threshold: float,
    batch_size: int = 32,
    task: int = 0,
    together: Processes = SINGLE_PROCESS,
) -> Answers:
    """Labels for every item of `data`, in its order; see `predictions`."""
    rows = predictions(
        model, data, threshold=threshold, batch_size=batch_size, task=task, together=together
    )
    return [row.labels for row in rows]


@torch.no_grad()
def predictions(
    model: KnowledgeForTask,
    data: TaskData,
    *,
    threshold: float,
    batch_size: int = 32,
    task: int = 0,
    together: Processes = SINGLE_PROCESS,
) -> list[Prediction]:
    """A prediction for every item of `data`, in its order; the model keeps its mode.

    Where several processes call it `together`, each reads its share of the batches, which are those
    of one process, and all get every prediction.

    Of a regression the number, as text of six places. Of a span its words, "" for no answer: where
    there may be none, the best span must be more than `threshold` better. Of choices the number of
    the best, from "1".
    `task`: the number of the model's task (`KnowledgeForTask.question`).
    """
    question = model.question(task)
    kind = task_kind(question.problem_type)
    items: dict[int, Prediction] = {}
    for chosen, samples, batch, logits in _answered(model, data, batch_size, task, together):
        first = 0
        for item, sample in zip(chosen, samples, strict=True):
            rows = slice(first, first + len(sample))
            first = rows.stop
            scored = _scored(question, data, item, logits, batch, rows, threshold)
            items[item] = kind.predict(scored)
    for others in together.from_each(items):
        items |= others
    return [items[i] for i in range(len(data))]


def _scored(
    question: Question,
    data: TaskData,
    item: int,
    logits: Tensor,
    batch: KnowledgeBatch,
    rows: slice,
    threshold: float,
) -> ScoredItem:
    """One item with its `rows` of a batch: several for spans and choices."""
    example = data.examples[item]

    def words() -> list[list[int]]:
        assert batch.target_spans is not None
        return data.word_places(item, batch.target_spans[rows], logits.shape[1])

    return ScoredItem(
        logits=_of_text(data.kind, logits[rows]),
        classes=question.labels,
        threshold=threshold,
        text=example.linked.text,
        words=words,
        spans=lambda: data.answers(item, logits[rows], batch.take(rows)),
    )


@torch.no_grad()
def class_logits(
    model: KnowledgeForTask, data: TaskData, *, batch_size: int = 32
) -> Float[Tensor, "item class"]:
    """The logits of every item of `data`, for tasks with one answer a text; float32."""
    rows = torch.empty(len(data), len(model.question().labels))
    for indices, samples, _, logits in _answered(model, data, batch_size, 0):
        parts = torch.split(logits, [*map(len, samples)])
        rows[indices] = torch.cat([_of_text(data.kind, part) for part in parts])
    return rows


def _of_text(kind: TaskKind, logits: Tensor) -> Tensor:
    """The logits of a text, of one answer the mean of its windows'; `[1 class]` then."""
    is_mean = kind.rows == "one" and not kind.labels_nodes and len(logits) > 1
    return logits.mean(0, keepdim=True) if is_mean else logits


def _batches(data: TaskData, batch_size: int) -> list[list[int]]:
    """The items of each batch, the shortest first; of texts in windows each window counts."""
    batches: list[list[int]] = []
    room = 0
    for item in sorted(range(len(data)), key=lambda i: (data.n_nodes(i), i)):
        n_rows = data.n_rows(item) if data.kind.rows == "one" else 1
        if not batches or n_rows > room:
            batches.append([])
            room = batch_size
        batches[-1].append(item)
        room -= n_rows
    return batches


def _answered(
    model: KnowledgeForTask,
    data: TaskData,
    batch_size: int,
    task: int,
    together: Processes = SINGLE_PROCESS,
) -> Iterator[tuple[list[int], list[KnowledgeBatch], KnowledgeBatch, Tensor]]:
    """Items, their samples, the batch of these and its logits, the shortest items first.

    In evaluation mode; at the end the model is in the mode it was in. Each of several processes
    gets a share of the batches, and all the same number, for which some are read twice.
    """
    was_training = model.training
    model.eval()
    batches = _batches(data, batch_size)
    for turn in range(0, len(batches), together.n):
        indices = batches[min(turn + together.rank, len(batches) - 1)]
        samples = data.samples(indices, epoch=0, seed=0)
        batch = data.collate(samples, epoch=0, seed=0, step=0)
        if task:
            batch = batch.replace(task_ids=torch.full((len(batch),), task))
        yield indices, samples, batch, model(batch.to(model.device)).class_logits.float().cpu()
    model.train(was_training)
