"""CoLAKE's released checkpoints (txsun1997/CoLAKE) into ours and back.

The entity table, which the original keeps in a separate file, goes by the name `entity_embeddings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from kept.convert.tables import Rules, load_strictly, to_ours
from kept.encoders.colake import CoLAKEConfig
from kept.objectives.model import KnowledgeForPreTraining

ENCODER: Rules = (("roberta.", "encoder.host."),)
PRETRAINING: Rules = (
    *ENCODER,
    ("entity_embeddings", "encoder.entity_embeddings.weight"),
    ("rel_embeddings.weight", "encoder.relation_embeddings.weight"),
    ("lm_head.dense.", "objectives.masked_nodes.word_transform.dense."),
    ("lm_head.layer_norm.", "objectives.masked_nodes.word_transform.layer_norm."),
    ("lm_head.bias", "objectives.masked_nodes.word_bias"),
    ("ent_lm_head.dense.", "objectives.masked_nodes.entity_transform.dense."),
    ("ent_lm_head.layer_norm.", "objectives.masked_nodes.entity_transform.layer_norm."),
    ("rel_lm_head.dense.", "objectives.masked_nodes.relation_transform.dense."),
    ("rel_lm_head.layer_norm.", "objectives.masked_nodes.relation_transform.layer_norm."),
    ("rel_lm_head.bias", "objectives.masked_nodes.relation_bias"),
)
PRETRAINING_TIED: Rules = (
    ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    ("lm_head.bias", "lm_head.decoder.bias"),
    ("rel_embeddings.weight", "rel_lm_head.decoder.weight"),
    ("rel_lm_head.bias", "rel_lm_head.decoder.bias"),
)


def _classification(head: str) -> Rules:
    return (
        *ENCODER,
        ("ent_embeddings_n.weight", "encoder.entity_embeddings.weight"),
        (f"{head}.dense.", "head.transform.dense."),
        (f"{head}.layer_norm.", "head.transform.layer_norm."),
        (f"{head}.decoder.weight", "head.classes.weight"),
        (f"{head}.bias", "head.classes.bias"),
    )


RELATION, RELATION_TIED = _classification("rel_head"), (("rel_head.bias", "rel_head.decoder.bias"),)
TYPING, TYPING_TIED = _classification("cls_head"), (("cls_head.bias", "cls_head.decoder.bias"),)


def from_original(state: Mapping[str, Tensor], config: CoLAKEConfig) -> KnowledgeForPreTraining:
    """The pre-training model with an original's weights."""
    model = KnowledgeForPreTraining(config)
    load_strictly(model, to_ours(state, PRETRAINING, PRETRAINING_TIED))
    return model


def original_config(
    *, host: Mapping[str, object], n_entities: int, n_relations: int
) -> CoLAKEConfig:
    """The configuration under which our model computes what the original does.

    `host`: sizes of its RoBERTa; `n_entities`, `n_relations`: special rows not counted.
    """
    return CoLAKEConfig(
        host={"model_type": "roberta", **host},
        n_entities=n_entities,
        n_relations=n_relations,
        position_offset=0,
        kind_table="host",
        objectives={"masked_nodes": {"empty_loss": "nan"}},
    )
