"""CoLAKE's released checkpoints (txsun1997/CoLAKE) into ours and back.

The table is data: ordered rules `(theirs, ours)`, where a name ending in a dot renames everything
below it. `TIED` lists names that the original stores twice; both copies must be equal, and the
second is made again on the way back. The entity table, which the original keeps in a separate file,
goes by the name `entity_embeddings`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kept.encoders.colake import CoLAKEConfig
from kept.errors import CheckpointError
from kept.objectives.masked_nodes import CoLAKEForPreTraining

Rules = tuple[tuple[str, str], ...]

ENCODER: Rules = (("roberta.", "encoder.host."),)
PRETRAINING: Rules = (
    *ENCODER,
    ("entity_embeddings", "encoder.entity_embeddings.weight"),
    ("rel_embeddings.weight", "encoder.relation_embeddings.weight"),
    ("lm_head.dense.", "objective.word_transform.dense."),
    ("lm_head.layer_norm.", "objective.word_transform.layer_norm."),
    ("lm_head.bias", "objective.word_bias"),
    ("ent_lm_head.dense.", "objective.entity_transform.dense."),
    ("ent_lm_head.layer_norm.", "objective.entity_transform.layer_norm."),
    ("rel_lm_head.dense.", "objective.relation_transform.dense."),
    ("rel_lm_head.layer_norm.", "objective.relation_transform.layer_norm."),
    ("rel_lm_head.bias", "objective.relation_bias"),
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


def to_ours(
    state: Mapping[str, Tensor], rules: Rules = PRETRAINING, tied: Rules = PRETRAINING_TIED
) -> dict[str, Tensor]:
    """Rename an original state dict; raises `CheckpointError` on an unknown name or untied pair."""
    copies = {second for _, second in tied}
    for first, second in tied:
        if first in state and second in state and not torch.equal(state[first], state[second]):
            raise CheckpointError(f"{second} should equal {first}: the original ties them")
    return _rename({k: v for k, v in state.items() if k not in copies}, rules)


def to_original(
    state: Mapping[str, Tensor], rules: Rules = PRETRAINING, tied: Rules = PRETRAINING_TIED
) -> dict[str, Tensor]:
    """The inverse of `to_ours`."""
    named = _rename(state, tuple((ours, theirs) for theirs, ours in rules))
    return named | {second: named[first] for first, second in tied if first in named}


def _rename(state: Mapping[str, Tensor], rules: Rules) -> dict[str, Tensor]:
    renamed, unknown = {}, []
    for name, value in state.items():
        for old, new in rules:
            if name == old or (old.endswith(".") and name.startswith(old)):
                renamed[new + name[len(old) :]] = value
                break
        else:
            unknown.append(name)
    if unknown:
        raise CheckpointError(f"weights that the key table does not know: {sorted(unknown)}")
    return renamed


def load_strictly(model: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load renamed weights; raises `CheckpointError` naming every missing or unexpected one."""
    own = model.state_dict()
    missing, unexpected = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or unexpected:
        raise CheckpointError(
            f"the checkpoint does not fit {type(model).__name__}: missing {missing}, "
            f"unexpected {unexpected}"
        )
    shapes = [
        f"{name}: {tuple(value.shape)} instead of {tuple(own[name].shape)}"
        for name, value in state.items()
        if value.shape != own[name].shape
    ]
    if shapes:
        raise CheckpointError(f"weights of another shape: {'; '.join(shapes)}")
    model.load_state_dict(dict(state))


def from_original(state: Mapping[str, Tensor], config: CoLAKEConfig) -> CoLAKEForPreTraining:
    """The pre-training model with an original's weights."""
    model = CoLAKEForPreTraining(config)
    load_strictly(model, to_ours(state))
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
        empty_loss="nan",
    )
