"""`KnowledgeForTask`: any encoder under one task head. The table of heads is at the top.

Axis legend: batch, node, class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn
from torch.nn import functional as F

from kept.batches import KnowledgeBatch
from kept.encoders import encoder_of, read_config
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder, KnowledgeModel
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.heads.base import Head
from kept.heads.candidates import CandidatesHead, CandidatesOptions
from kept.heads.entities import EntitiesHead, EntitiesOptions
from kept.heads.graph import GraphHead, GraphOptions
from kept.heads.layer_mix import LayerMix, LayerMixOptions
from kept.heads.pooled import (
    PooledHead,
    PooledOptions,
    TargetsHead,
    TargetsOptions,
    TransformHead,
    TransformOptions,
)
from kept.heads.span import SpanHead, SpanOptions
from kept.heads.tagging import TaggingHead, TaggingOptions
from kept.heads.uer import UERHead, UEROptions
from kept.layers.means import mean_of
from kept.layers.rows import RowTable
from kept.options import read_options
from kept.outputs import KnowledgeOutput
from kept.suggestions import no_such
from kept.tasks.kinds import (
    SINGLE,
    task_kind,
)
from kg_loaders import KnowledgeGraph

MAIN_LOSS = "class"
"""Name of the loss; those of further tasks are theirs."""
TEACHER_LOSS = "teacher"


@dataclass(frozen=True)
class Question:
    """The task of a head: the name of its loss, its kind and its classes."""

    loss: str
    problem_type: str
    labels: tuple[str, ...]


class FurtherHead(nn.Module):
    """The head of a further task, with a mixture of layers of its own, if any."""

    def __init__(self, head: Head, layer_mix: LayerMix | None) -> None:
        super().__init__()
        self.head, self.layer_mix = head, layer_mix


@dataclass(frozen=True)
class HeadKind:
    """A head and the dataclass of its options."""

    options: type[Any]
    module: type[Head]

    def read(self, name: str, values: Mapping[str, Any]) -> Any:
        """The options; raises `ConfigError` naming an unknown field."""
        return read_options(self.options, values, f"head {name}")


HEADS: dict[str, HeadKind] = {
    "pooled": HeadKind(PooledOptions, PooledHead),
    "transform": HeadKind(TransformOptions, TransformHead),
    "targets": HeadKind(TargetsOptions, TargetsHead),
    "tagging": HeadKind(TaggingOptions, TaggingHead),
    "uer": HeadKind(UEROptions, UERHead),
    "span": HeadKind(SpanOptions, SpanHead),
    "candidates": HeadKind(CandidatesOptions, CandidatesHead),
    "graph": HeadKind(GraphOptions, GraphHead),
    "entities": HeadKind(EntitiesOptions, EntitiesHead),
}


def head_kind(name: str) -> HeadKind:
    """The head called `name`; raises `ConfigError` listing all names."""
    if name not in HEADS:
        raise no_such("head", name, sorted(HEADS))
    return HEADS[name]


class KnowledgeForTask(KnowledgeModel):
    """An encoder and one head; `forward` adds `class_logits`, and the loss `class` for labels.

    `add_task` adds further heads, one per task; `task_ids` of a batch name the task.

    `config.head` names the head, its options and the encoder's `frozen` parts, which stay frozen
    after loading, and the options of a `layer_mix`, where the head reads one; `config.id2label` are
    the classes. An encoder that is frozen as a whole stays in evaluation mode: its states are the
    head's features. `config.problem_type` is the name of a kind in `kept.tasks.kinds`, whose loss
    is over `labels`, or over `node_labels`.
    """

    def __init__(self, config: KnowledgeConfig, *, encoder: KnowledgeEncoder | None = None) -> None:
        super().__init__(config)
        if config.problem_type is None and config.num_labels == 1:  # `KnowledgeConfig.to_dict`
            config.problem_type = SINGLE
        task_kind(config.problem_type)
        self.encoder = encoder = encoder_of(self.config, encoder)
        options = dict(config.head)
        self.frozen, further = tuple(options.pop("frozen", ())), options.pop("further", [])
        head = _make_head(encoder, options, config.num_labels)
        self.head, self.layer_mix = head.head, head.layer_mix
        self.further = nn.ModuleDict(
            {
                task["name"]: _make_head(encoder, task["head"], len(task["labels"]))
                for task in further
            }
        )
        self.post_init()
        self.freeze()

    @classmethod
    def of(
        cls,
        encoder: KnowledgeEncoder,
        head: str,
        labels: Sequence[str],
        *,
        problem_type: str = SINGLE,
        frozen: Sequence[str] = (),
        layer_mix: LayerMixOptions | None = None,
        **options: Any,
    ) -> KnowledgeForTask:
        """`encoder` with a new head for `labels`; `options` are the head's.

        `frozen` names parts of the encoder that are never trained here ("encoder" is all of it).
        """
        encoder.begin_task()
        config = encoder.config
        config.head = {"frozen": list(frozen), **_described(head, layer_mix, options)}
        config.objectives = {}
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: i for i, label in enumerate(labels)}
        config.problem_type = problem_type
        model = cls(config, encoder=encoder)
        model.to(encoder.host.dtype)
        return model

    def add_task(
        self,
        name: str,
        head: str,
        labels: Sequence[str],
        *,
        problem_type: str,
        layer_mix: LayerMixOptions | None = None,
        **options: Any,
    ) -> None:
        """A new head for a further task, the next number of `task_ids`; `options` are the head's.

        Raises `ConfigError` for a name that is there already.
        """
        task_kind(problem_type)
        if name in self.further:
            raise ConfigError(f"there is a task {name!r} already; there are {[*self.further]}")
        described = _described(head, layer_mix, options)
        task = {"name": name, "head": described, "labels": list(labels)}
        # a list: a saved configuration sorts its mappings, and tasks go by number
        further = self.config.head.setdefault("further", [])
        further.append({**task, "problem_type": problem_type})
        task_head = _make_head(self.encoder, described, len(labels))
        task_head.apply(self._init_weights)
        self.further[name] = task_head.to(device=self.device, dtype=self.encoder.host.dtype)

    def question(self, task: int = 0) -> Question:
        """Return task number `task`, 0 the first; raises `BatchError` beyond the last."""
        config = self.config
        if task == 0:
            labels = tuple(config.id2label[i] for i in range(config.num_labels))
            return Question(MAIN_LOSS, config.problem_type, labels)
        if not 0 < task <= len(self.further):
            raise BatchError(f"task {task} does not exist; there are 0 to {len(self.further)}")
        further = config.head["further"][task - 1]
        return Question(further["name"], further["problem_type"], tuple(further["labels"]))

    @classmethod
    def from_pretrained(cls, name_or_path: Any, *args: Any, **options: Any) -> Self:
        """As `KnowledgeModel.from_pretrained`; the encoder's class is read from the folder."""
        config = options.setdefault("config", read_config(name_or_path))
        if not config.head:
            raise CheckpointError(f"{name_or_path} holds an encoder without a task head")
        return super().from_pretrained(name_or_path, *args, **options)

    def require_graph(self, graph: KnowledgeGraph) -> None:
        """As the encoder's: a head holds no rows of a graph."""
        self.encoder.require_graph(graph)

    def row_tables(self) -> tuple[RowTable, ...]:
        """The encoder's."""
        return tuple(table.inside("encoder") for table in self.encoder.row_tables())

    def follow(self, graph: KnowledgeGraph) -> None:
        """As the encoder, whose configuration is this one's."""
        self.encoder.follow(graph)

    def freeze(self) -> None:
        self.encoder.freeze()
        self.encoder.freeze_parts(self.frozen)

    def train(self, mode: bool = True) -> Self:
        """As any module, but an encoder that is frozen as a whole stays in evaluation mode."""
        super().train(mode)
        if "encoder" in self.frozen:
            self.encoder.eval()
        return self

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """The encoder's output with `class_logits`, and the task's loss if there are labels.

        The loss of a text in several windows is that of the mean of their logits.
        """
        task = _task_of(batch)
        question, (head, layer_mix) = self.question(task), self._reads(task)
        output: KnowledgeOutput = self.encoder(batch)
        read = output
        if layer_mix is not None:
            read = dataclasses.replace(output, node_states=layer_mix(output.hidden_states))
        logits: Tensor = head(read, batch, self.encoder)
        kind = task_kind(question.problem_type)
        labels, teacher, answers = batch.labels, batch.teacher_logits, logits
        if kind.labels_nodes:
            labels = batch.node_labels
        elif batch.window_ids is not None:
            answers = mean_of_windows(logits, batch.window_ids)
            labels = None if labels is None else labels[batch.window_ids == 0]
            teacher = None if teacher is None else mean_of_windows(teacher, batch.window_ids)
        losses = {}
        if labels is not None:
            losses[question.loss] = kind.loss(answers, labels)
        if teacher is not None:
            losses[TEACHER_LOSS] = teacher_loss(answers, teacher)
        return dataclasses.replace(output, class_logits=logits, losses=losses)

    def layer_weights(self, task: int = 0) -> dict[str, Any] | None:
        """Weights and gamma of a task's layer mixture; None where its head reads the last layer."""
        _, layer_mix = self._reads(task)
        return None if layer_mix is None else layer_mix.report()

    def _reads(self, task: int) -> tuple[Head, LayerMix | None]:
        """The head of a task, and the mixture of layers that it reads, if any."""
        if task == 0:
            return self.head, self.layer_mix
        head = [*self.further.values()][task - 1]
        assert isinstance(head, FurtherHead)
        return head.head, head.layer_mix


def task_loss(kind: str, logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of a `problem_type`; raises `BatchError` for labels that do not fit."""
    return task_kind(kind).loss(logits, labels)


def mean_of_windows(logits: Tensor, window_ids: Tensor) -> Tensor:
    """Return the mean logits of each text, `[text class]`, from those of its windows `[row class]`.

    `window_ids [row]` is `KnowledgeBatch.window_ids`.

    >>> import torch
    >>> mean_of_windows(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 1, 0])).tolist()
    [[2.0], [5.0]]
    """
    texts = (window_ids == 0).cumsum(0) - 1
    n_windows = texts.bincount()
    sums = logits.new_zeros(len(n_windows), logits.shape[1]).index_add(0, texts, logits)
    return sums / n_windows[:, None]


def teacher_loss(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of logits `[batch class]`, over rows that the teacher answered.

    Ba and Caruana 2014, "Do Deep Nets Really Need to be Deep?", section 2.2. Raises `BatchError`
    where the classes are not as many.
    """
    if logits.shape != teacher.shape:
        raise BatchError(
            f"the teacher's logits have shape {tuple(teacher.shape)}, the model's "
            f"{tuple(logits.shape)}"
        )
    answered = ~teacher.isnan().any(dim=1)
    error = F.mse_loss(logits[answered], teacher[answered].to(logits.dtype), reduction="sum")
    return mean_of(error, answered.sum() * logits.shape[1])


def _described(
    head: str, layer_mix: LayerMixOptions | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """A head as a configuration keeps it."""
    values = {"name": head, **dataclasses.asdict(head_kind(head).read(head, options))}
    return values if layer_mix is None else {**values, "layer_mix": dataclasses.asdict(layer_mix)}


def _make_head(
    encoder: KnowledgeEncoder, described: Mapping[str, Any], n_classes: int
) -> FurtherHead:
    options = dict(described)
    name, mix = options.pop("name"), options.pop("layer_mix", None)
    kind = head_kind(name)
    head = kind.module.for_encoder(encoder, n_classes, kind.read(name, options))
    return FurtherHead(head, None if mix is None else LayerMix(encoder.n_states, **mix))


def _task_of(batch: KnowledgeBatch) -> int:
    if batch.task_ids is None:
        return 0
    tasks: list[int] = batch.task_ids.unique().tolist()
    if len(tasks) != 1:
        raise BatchError(f"a batch has examples of the tasks {tasks}; a batch must have one task")
    return tasks[0]
