"""`KnowledgeForTask`: any encoder under one task head. The table of heads is at the top.

Axis legend: batch, node, class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor
from torch.nn import functional as F

from kept.batches import IGNORE, KnowledgeBatch
from kept.encoders import encoder_of, read_config
from kept.encoders.base import KnowledgeConfig, KnowledgeEncoder, KnowledgeModel
from kept.errors import BatchError, CheckpointError, ConfigError
from kept.heads.base import Head
from kept.heads.layer_mix import LayerMix, LayerMixOptions
from kept.heads.pooled import (
    PooledHead,
    PooledOptions,
    TargetsHead,
    TargetsOptions,
    TransformHead,
    TransformOptions,
)
from kept.heads.tagging import TaggingHead, TaggingOptions
from kept.heads.uer import UERHead, UEROptions
from kept.options import read_options
from kept.outputs import KnowledgeOutput

SINGLE, MULTI = "single_label_classification", "multi_label_classification"
TAGGING = "token_classification"


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
}


def head_kind(name: str) -> HeadKind:
    """The head called `name`; raises `ConfigError` listing all names."""
    if name not in HEADS:
        raise ConfigError(f"there is no head {name!r}; there are {sorted(HEADS)}")
    return HEADS[name]


class KnowledgeForTask(KnowledgeModel):
    """An encoder and one head; `forward` adds `class_logits`, and the loss `class` for labels.

    `config.head` names the head, its options and the encoder's `frozen` parts, which stay frozen
    after loading, and the options of a `layer_mix`, where the head reads one; `config.id2label` are
    the classes. An encoder that is frozen as a whole stays in evaluation mode: its states are the
    features that the head reads.
    `config.problem_type`: `single_label_classification` (cross entropy, `labels [batch]`),
    `multi_label_classification` (binary cross entropy averaged over batch and classes, `labels
    [batch class]`) or `token_classification` (cross entropy over nodes, `node_labels`).
    """

    def __init__(self, config: KnowledgeConfig, *, encoder: KnowledgeEncoder | None = None) -> None:
        super().__init__(config)
        if config.problem_type not in (SINGLE, MULTI, TAGGING):
            raise ConfigError(
                f"problem_type is {config.problem_type!r}; use {SINGLE!r}, {MULTI!r} or {TAGGING!r}"
            )
        self.encoder = encoder = encoder_of(self.config, encoder)
        options = dict(config.head)
        name, self.frozen = options.pop("name"), tuple(options.pop("frozen", ()))
        mix = options.pop("layer_mix", None)
        self.layer_mix = None if mix is None else LayerMix(encoder.n_states, **mix)
        kind = head_kind(name)
        self.head = kind.module.for_encoder(encoder, config.num_labels, kind.read(name, options))
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
        values = dataclasses.asdict(head_kind(head).read(head, options))
        config.head = {"name": head, "frozen": list(frozen), **values}
        if layer_mix is not None:
            config.head["layer_mix"] = dataclasses.asdict(layer_mix)
        config.objectives = {}
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: i for i, label in enumerate(labels)}
        config.problem_type = problem_type
        model = cls(config, encoder=encoder)
        model.to(encoder.host.dtype)
        return model

    @classmethod
    def from_pretrained(cls, name_or_path: Any, *args: Any, **options: Any) -> Self:
        """As `KnowledgeModel.from_pretrained`; the encoder's class is read from the folder."""
        config = options.setdefault("config", read_config(name_or_path))
        if not config.head:
            raise CheckpointError(f"{name_or_path} holds an encoder without a task head")
        return super().from_pretrained(name_or_path, *args, **options)

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
        """The encoder's output with `class_logits`, and the loss `class` if there are labels."""
        output: KnowledgeOutput = self.encoder(batch)
        read = output
        if self.layer_mix is not None:
            read = dataclasses.replace(output, node_states=self.layer_mix(output.hidden_states))
        logits: Tensor = self.head(read, batch, self.encoder)
        tagging = self.config.problem_type == TAGGING
        labels = batch.node_labels if tagging else batch.labels
        losses = {} if labels is None else {"class": self._loss(logits, labels)}
        return dataclasses.replace(output, class_logits=logits, losses=losses)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        kind = self.config.problem_type
        expected = tuple(logits.shape) if kind == MULTI else tuple(logits.shape[:-1])
        if tuple(labels.shape) != expected:
            raise BatchError(f"labels have shape {tuple(labels.shape)}, {kind} needs {expected}")
        if kind == MULTI:
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        asked = labels != IGNORE
        outside = asked & ((labels < 0) | (labels >= logits.shape[-1]))
        if bool(outside.any()):
            raise BatchError(
                f"label {int(labels[outside][0])} is outside the {logits.shape[-1]} classes"
            )
        flat = F.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        return flat / asked.sum().clamp(min=1)
