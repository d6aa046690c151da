"""Entity vectors for encoders that read them: TransE trained on the graph, special rows first.

Axis legend: row (special rows, then entities), width.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from kept.batches import N_SPECIAL_ROWS, PAD_ROW
from kept.errors import CheckpointError
from kept.kge.scorers import make_scorer
from kept.kge.trained import load_scorer
from kept.kge.training import train
from kept.kge.training_config import TrainingConfig
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
"""TransE whose step costs the same however many entities there are."""


def entity_vectors(
    graph: KnowledgeGraph,
    *,
    width: int,
    seed: int,
    n_epochs: int = RECIPE.n_epochs,
    folder: str | Path | None = None,
) -> Float[Tensor, "row width"]:
    """One vector a row, entities of mean length 1; UNKNOWN and MASK are random, PAD is zero.

    `folder` is one that `kept kgc train` wrote; without it a TransE is trained. An entity without
    triples keeps its random first vector. Raises `CheckpointError` or `GraphMismatchError` for a
    folder that does not fit.
    """
    draws = torch_generator(seed, "entity vectors", graph.id_space_hash)
    special = torch.randn(N_SPECIAL_ROWS, width, generator=draws)
    special = special / special.norm(dim=1, keepdim=True)
    special[PAD_ROW] = 0
    if folder is not None:
        vectors = load_scorer(Path(folder), graph).scorer.entities.detach()
        if vectors.shape[1] != width:
            raise CheckpointError(
                f"{folder} holds vectors of width {vectors.shape[1]}, the encoder reads {width}; "
                f"train with that width, or set the encoder's to {vectors.shape[1]}"
            )
    else:
        scorer = make_scorer(
            "transe",
            n_entities=graph.n_entities,
            n_relations=graph.n_relations,
            width=width,
            generator=draws,
        )
        if graph.n_triples:
            config = replace(RECIPE, n_epochs=n_epochs)
            with torch.enable_grad():
                train(scorer, graph.triples, config=config, generator=draws)
        vectors = scorer.entities.detach()
    mean_length = vectors.norm(dim=1).mean().clamp_min(torch.finfo(vectors.dtype).tiny)
    return torch.cat([special, vectors / mean_length])
