"""A triple scorer over computed tables: from texts, or from a graph network."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from kept.errors import ConfigError
from kept.kge.kinds import FORMULAS
from kept.kge.scorer import Scorer


def table_scorer(
    name: str,
    entities: Float[Tensor, "entity width"],
    relations: Float[Tensor, "relation width"],
    **options: Any,
) -> Scorer:
    """The scorer `name` over the given vectors, with gradients to them.

    `options` are the scorer's own (`norm` of TransE). Raises `ConfigError` for an unknown name or
    tables whose widths do not go together.
    """
    width = entities.shape[1]
    scorer = FORMULAS.require(name)(
        n_entities=0, n_relations=0, width=width, generator=torch.Generator(), **options
    )
    required = scorer.relation_width(width)
    if relations.shape[1] != required:
        raise ConfigError(
            f"{name} with entities of width {width} needs relations of width {required}, "
            f"not {relations.shape[1]}"
        )
    scorer.n_entities, scorer.n_relations = len(entities), len(relations)
    for field, table in (("entities", entities), ("relations", relations)):
        delattr(scorer, field)  # a registered parameter takes no tensor with a history
        setattr(scorer, field, table)
    return scorer
