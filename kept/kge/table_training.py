"""Trainings of scorers with a vector for each entity, as `kept kgc train` does them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import cast

import torch

from kept.kge.comparisons import Norm
from kept.kge.kinds import SCORERS, Recipe, ScorerKind, Trained, Training
from kept.kge.options import NetworkOptions, VectorOptions
from kept.kge.reciprocal import make_reciprocal
from kept.kge.scorers import Scorer, make_scorer
from kept.kge.training import train
from kept.kge.training_config import BERTMKRecipe


def train_formula(training: Training) -> Trained:
    """Train a scorer by its recipe."""
    name, options = training.name, training.options
    assert isinstance(options, VectorOptions)
    recipe = _kind(name).recipe or Recipe()
    config = replace(recipe.config, n_epochs=options.epochs or recipe.config.n_epochs)
    draws = torch.Generator().manual_seed(training.seed)
    graph = training.splits.graph
    make = make_reciprocal if options.reciprocal else make_scorer
    scorer: Scorer = make(
        name,
        n_entities=graph.n_entities,
        n_relations=graph.n_relations,
        width=options.width or recipe.width,
        generator=draws,
        norm=cast(Norm | None, getattr(options, "norm", None)),
    )
    with training.progress(config.n_epochs) as on_epoch:
        history = train(
            scorer,
            training.splits.train,
            config=config,
            generator=draws,
            validate=training.validate,
            snapshots=training.snapshots,
            on_epoch=on_epoch,
        )
    return Trained(scorer=scorer, history=history, settings={"config": asdict(config)})


def train_graph_network(training: Training) -> Trained:
    """Train a network over the graph; the scorer is its decoder over the network's states."""
    from kept.kge.gnn.bertmk import train_bertmk
    from kept.kge.gnn.recipes import train_network  # torch-geometric takes seconds to import

    options = training.options
    assert isinstance(options, NetworkOptions)
    recipe = _kind(training.name).recipe
    config = replace(recipe.config, n_epochs=options.epochs or recipe.config.n_epochs)
    recipe = replace(recipe, config=config, width=options.width or recipe.width)
    train_one = train_bertmk if isinstance(recipe, BERTMKRecipe) else train_network
    with training.progress(config.n_epochs) as on_epoch:
        scorer, history = train_one(
            training.splits,
            recipe,
            generator=torch.Generator().manual_seed(training.seed),
            validate=training.validate,
            snapshots=training.snapshots,
            on_epoch=on_epoch,
        )
    settings = {"config": asdict(config), "network": recipe.as_json()}
    return Trained(scorer=scorer, history=history, settings=settings)


def _kind(name: str) -> ScorerKind:
    return SCORERS[name]
