"""Graph networks over known entities, as `kept kgc train` makes them: a table, messages, a decoder.

What is kept of a trained network are the states that it gives the entities and relations of the
training graph: they are the vectors of its decoder, a scorer like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from kept.errors import ConfigError
from kept.evaluation.ranking import HasScores
from kept.kge.gnn.networks import RGCN, CompGCN, EntityTable, GraphModel, MessageGraph, NoGraph
from kept.kge.gnn.training import train_graph_model
from kept.kge.resuming.epochs import TrainingHistory
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.scorers import Scorer, make_scorer
from kept.kge.splits import Splits
from kept.kge.training_config import NetworkRecipe


def make_layers(
    name: str,
    *,
    width: int,
    n_types: int,
    n_layers: int,
    n_bases: int,
    composition: str,
    dropout: float,
    generator: torch.Generator,
) -> NoGraph | RGCN | CompGCN:
    """The message passing of `name`: none, rgcn (reads `n_bases`) or compgcn (`composition`)."""
    common: dict[str, Any] = {
        "width": width,
        "n_layers": n_layers,
        "dropout": dropout,
        "generator": generator,
    }
    if name == "rgcn":
        return RGCN(n_types=n_types, n_bases=n_bases, **common)
    return CompGCN(composition=composition, **common) if name == "compgcn" else NoGraph()


def train_network(
    splits: Splits,
    recipe: NetworkRecipe,
    *,
    generator: torch.Generator,
    validate: Callable[[HasScores], float],
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> tuple[Scorer, TrainingHistory]:
    """The decoder over the trained states of all entities, and the history.

    A batch is at most half of the training triples: asked ones carry no message. Raises
    `ConfigError` for a graph of fewer than two training triples.
    """
    n_train = len(splits.train)
    if n_train < 2:
        raise ConfigError(f"{n_train} training triples: a network needs one to ask, one to read")
    config = replace(recipe.config, batch_size=min(recipe.config.batch_size, n_train // 2))
    n_entities, n_relations = splits.graph.n_entities, splits.graph.n_relations
    model = _make_model(recipe, n_entities=n_entities, n_relations=n_relations, generator=generator)
    graph = MessageGraph.of(splits.train, n_entities=n_entities, n_relations=n_relations)
    history = train_graph_model(
        model,
        splits.train,
        n_entities=n_entities,
        text=None,
        config=config,
        generator=generator,
        validate=lambda model: validate(model.scorer(graph)),
        snapshots=snapshots,
        on_epoch=on_epoch,
    )
    states = model.scorer(graph)
    scorer = make_scorer(
        recipe.decoder,
        n_entities=n_entities,
        n_relations=n_relations,
        width=recipe.width,
        generator=generator,
    )
    with torch.no_grad():
        scorer.entities.copy_(states.entities)
        scorer.relations.copy_(states.relations)
    return scorer, history


def _make_model(
    recipe: NetworkRecipe, *, n_entities: int, n_relations: int, generator: torch.Generator
) -> GraphModel:
    width = recipe.width
    features = EntityTable(n_entities=n_entities, width=width, generator=generator)
    layers = make_layers(
        recipe.layers,
        width=width,
        n_types=2 * n_relations,
        n_layers=recipe.n_layers,
        n_bases=recipe.n_bases,
        composition=recipe.composition,
        dropout=recipe.dropout,
        generator=generator,
    )
    return GraphModel(
        features=features,
        layers=layers,
        decoder=recipe.decoder,
        n_relations=n_relations,
        width=width,
        generator=generator,
    )
