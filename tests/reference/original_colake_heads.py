"""CoLAKE's fine-tuning models for typing and relations (Sun et al. 2020, released code)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from kept.batches import N_SPECIAL_ROWS
from kept.encoders.colake import CoLAKE, CoLAKEConfig
from kept.errors import ConfigError
from kept.heads.model import KnowledgeForTask
from kept.objectives.model import KnowledgeForPreTraining
from kept.tasks.kinds import MULTI, SINGLE


def for_classification(
    pretrained: KnowledgeForPreTraining,
    *,
    labels: Sequence[str],
    transform_from: Literal["relation", "entity"],
    multi_label: bool = False,
    relation_rows: Sequence[int] | None = None,
    entity_rows: Sequence[int] | None = None,
    n_new_words: int = 0,
) -> KnowledgeForTask:
    """A fine-tuning model that starts from a pre-trained CoLAKE, which is left as it is.

    The head's transform is a copy of the pre-training head named by `transform_from`.
    `relation_rows` (rows of the relation table, one a label) start the class matrix; without them
    it is random. `entity_rows` keeps only these rows of the entity table, in this order; node ids
    are then indices into them (`original_colake_samples.entity_vocabulary`), and the model no
    longer follows the graph's id space. `n_new_words` marker words are added at the end of the
    vocabulary. Entity rows stay as pre-training left them.
    """
    config = CoLAKEConfig.from_dict(pretrained.config.to_dict())
    source = pretrained.encoder.state_dict()
    if entity_rows is not None:
        name = "entity_embeddings.weight"
        source[name] = source[name][torch.as_tensor(entity_rows, device=source[name].device)]
        config.n_entities, config.id_space_hash = len(entity_rows) - N_SPECIAL_ROWS, ""
    encoder = CoLAKE(config).to(pretrained.dtype)
    encoder.load_state_dict(source)
    model = KnowledgeForTask.of(
        encoder,
        "transform",
        labels,
        problem_type=MULTI if multi_label else SINGLE,
        frozen=["entities"],
    )
    head: Any = model.head
    transform = getattr(pretrained.objectives["masked_nodes"], f"{transform_from}_transform")
    head.transform.load_state_dict(transform.state_dict())
    if relation_rows is not None:
        if len(relation_rows) != len(labels):
            raise ConfigError(f"{len(relation_rows)} relation_rows for {len(labels)} labels")
        table = source["relation_embeddings.weight"]
        head.classes.weight.data.copy_(table[torch.as_tensor(relation_rows)])
    if n_new_words:
        host = model.encoder.host
        host.resize_token_embeddings(host.config.vocab_size + n_new_words, mean_resizing=False)
    return model
