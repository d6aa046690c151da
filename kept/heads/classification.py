"""CoLAKE's fine-tuning models for typing and relations (Sun et al. 2020, released code).

Axis legend: batch, node, width, embedding, class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from kept import hosts
from kept.batches import N_SPECIAL_ROWS, KnowledgeBatch
from kept.encoders.base import KnowledgeModel
from kept.encoders.colake import CoLAKE, CoLAKEConfig
from kept.errors import BatchError, ConfigError
from kept.layers.transform import Transform
from kept.objectives.model import KnowledgeForPreTraining
from kept.outputs import KnowledgeOutput

SINGLE, MULTI = "single_label_classification", "multi_label_classification"


class ClassificationHead(nn.Module):
    """The pre-training head's transform with dropout, then one score per class."""

    def __init__(
        self, *, width: int, embedding: int, n_classes: int, epsilon: float, dropout: float
    ) -> None:
        super().__init__()
        self.transform = Transform(
            width=width, embedding=embedding, epsilon=epsilon, dropout=dropout
        )
        self.classes = nn.Linear(embedding, n_classes)

    def forward(self, states: Float[Tensor, "batch width"]) -> Float[Tensor, "batch class"]:
        """Raw scores."""
        scores: Tensor = self.classes(self.transform(states))
        return scores


class CoLAKEForClassification(KnowledgeModel):
    """Classes from the state of the first node; entity rows are frozen.

    `config.problem_type` chooses the loss: `single_label_classification` (relations, cross entropy,
    labels `[batch]`) or `multi_label_classification` (typing, binary cross entropy averaged over
    batch and classes, labels `[batch class]`).
    """

    config_class = CoLAKEConfig

    def __init__(self, config: CoLAKEConfig, *, host: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        if config.problem_type not in (SINGLE, MULTI):
            raise ConfigError(
                f"problem_type is {config.problem_type!r}; use {SINGLE!r} or {MULTI!r}"
            )
        self.encoder = CoLAKE(self.config, host=host)
        host_config = self.encoder.host.config
        self.config.host = host_config
        self.head = ClassificationHead(
            width=host_config.hidden_size,
            embedding=hosts.word_table(self.encoder.host).embedding_dim,
            n_classes=config.num_labels,
            epsilon=host_config.layer_norm_eps,
            dropout=config.head_dropout,
        )
        self.post_init()
        self.freeze()

    def freeze(self) -> None:
        """Entity rows stay as pre-training left them."""
        self.encoder.entity_embeddings.weight.requires_grad_(False)

    def forward(self, batch: KnowledgeBatch) -> KnowledgeOutput:
        """The encoder's output with `class_logits`, and the loss `class` if there are labels."""
        output: KnowledgeOutput = self.encoder(batch)
        assert output.pooled_state is not None
        logits = self.head(output.pooled_state)
        losses = {}
        if batch.labels is not None:
            multi = self.config.problem_type == MULTI
            expected = tuple(logits.shape) if multi else (len(logits),)
            if tuple(batch.labels.shape) != expected:
                raise BatchError(
                    f"labels have shape {tuple(batch.labels.shape)}, "
                    f"{self.config.problem_type} needs {expected}"
                )
            losses["class"] = (
                F.binary_cross_entropy_with_logits(logits, batch.labels.to(logits.dtype))
                if multi
                else F.cross_entropy(logits, batch.labels)
            )
        return dataclasses.replace(output, class_logits=logits, losses=losses)


def for_classification(
    pretrained: KnowledgeForPreTraining,
    *,
    labels: Sequence[str],
    transform_from: Literal["relation", "entity"],
    multi_label: bool = False,
    relation_rows: Sequence[int] | None = None,
    entity_rows: Sequence[int] | None = None,
    n_new_words: int = 0,
) -> CoLAKEForClassification:
    """A fine-tuning model that starts from a pre-trained one, which is left as it is.

    The head's transform is a copy of the pre-training head named by `transform_from`.
    `relation_rows` (rows of the relation table, one a label) start the class matrix; without them
    it is random. `entity_rows` keeps only these rows of the entity table, in this order; node ids
    are then indices into them (see `kept.heads.samples.entity_vocabulary`), and the model no
    longer follows the graph's id space. `n_new_words` marker words are added at the end of the
    vocabulary.
    """
    config = CoLAKEConfig.from_dict(pretrained.config.to_dict())
    config.problem_type = MULTI if multi_label else SINGLE
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    source = {k: v for k, v in pretrained.state_dict().items() if k.startswith("encoder.")}
    if entity_rows is not None:
        name = "encoder.entity_embeddings.weight"
        source[name] = source[name][torch.as_tensor(entity_rows, device=source[name].device)]
        config.n_entities, config.id_space_hash = len(entity_rows) - N_SPECIAL_ROWS, ""
    model = CoLAKEForClassification(config)
    model.to(pretrained.dtype).encoder.load_state_dict(
        {k.removeprefix("encoder."): v for k, v in source.items()}
    )
    transform = getattr(pretrained.objectives["masked_nodes"], f"{transform_from}_transform")
    model.head.transform.load_state_dict(transform.state_dict())
    if relation_rows is not None:
        if len(relation_rows) != len(labels):
            raise ConfigError(f"{len(relation_rows)} relation_rows for {len(labels)} labels")
        table = pretrained.encoder.relation_embeddings.weight.detach()
        model.head.classes.weight.data.copy_(table[torch.as_tensor(relation_rows)])
    if n_new_words:
        host = model.encoder.host
        host.resize_token_embeddings(host.config.vocab_size + n_new_words, mean_resizing=False)
    return model
