"""Entity vectors for encoders that read them: from a trained scorer, or trained here.

Axis legend: entity, width.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from kept.kge.scorers import make_scorer
from kept.kge.trained import load_scorer
from kept.kge.training import TrainingConfig, train
from kept.randomness import torch_generator
from kg_loaders import KnowledgeGraph

RECIPE = TrainingConfig(
    n_epochs=20,
    batch_size=512,
    learning_rate=0.1,
    objective="negative_sampling",
    n_negatives=128,
    share_negatives=True,
    reject_known=True,
)
"""TransE in seconds: the cost of a step does not grow with the number of entities."""


def trained_or_loaded(
    graph: KnowledgeGraph,
    *,
    folder: str | Path | None = None,
    width: int = 100,
    n_epochs: int = RECIPE.n_epochs,
    seed: int = 0,
) -> Float[Tensor, "entity width"]:
    """One vector an entity of `graph`, of mean length 1.

    `folder` is one that `kept kgc train` wrote (`width` and `n_epochs` are then its own); without
    it a TransE is trained. An entity without triples keeps its random first vector. Raises
    `CheckpointError` or `GraphMismatchError` for a folder that does not fit.
    """
    if folder is not None:
        vectors = load_scorer(Path(folder), graph).scorer.entities.detach()
    else:
        draws = torch_generator(seed, "entity vectors")
        scorer = make_scorer(
            "transe",
            n_entities=graph.n_entities,
            n_relations=graph.n_relations,
            width=width,
            generator=draws,
        )
        config = replace(RECIPE, n_epochs=n_epochs)
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            train(scorer, graph.triples, config=config, generator=draws)
        vectors = scorer.entities.detach()
    mean_length = vectors.norm(dim=1).mean().clamp_min(torch.finfo(vectors.dtype).tiny)
    return vectors / mean_length
