"""Trainings of completers, as `kept kgc train` does them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from kept.errors import ConfigError
from kept.evaluation.ranking import Filter
from kept.kgc.completers.folders import is_completer, open_completer
from kept.kgc.completers.mix import MixPart, fit_mix
from kept.kge.kinds import Trained, Training
from kept.kge.options import (
    EncoderOptions,
    KeplerOptions,
    MixOptions,
    PathOptions,
    SimKGCOptions,
    TextOptions,
    UltraOptions,
)
from kept.kge.resuming.epochs import TrainingHistory
from kept.kge.training_config import TrainingConfig

HOST = "minilm"


def by_recipe(recipe: TrainingConfig, options: PathOptions | EncoderOptions) -> TrainingConfig:
    """Return a recipe with the options that are given.

    With `ask` it has no patience: epochs are short then, and one that validates worse is chance.
    """
    return replace(
        recipe,
        n_epochs=options.epochs or recipe.n_epochs,
        batch_size=options.batch_size or recipe.batch_size,
        patience=0 if options.ask else recipe.patience,
    )


def train_ultra(training: Training) -> Trained:
    """Train ULTRA, from released weights where they are given; without epochs they stay."""
    from kept.kgc.completers.ultra import (
        ULTRA_RECIPE,
        WIDTH,
        open_ultra,
        train_ultra_completer,
    )
    from kept.kge.ultra.released import released

    options = training.options
    assert isinstance(options, UltraOptions)
    start = None if options.weights is None else open_ultra(options.weights)
    known = None if start is None else released(start.weights())
    if known is not None:
        training.note(str(known))
    if start is not None and options.width not in (None, start.width):
        raise ConfigError(f"{options.weights} is {start.width} wide, --width says {options.width}")
    if start is not None and options.epochs is None:
        named = {} if known is None else {"released": known.name}
        return Trained(
            scorer=start, history=None, settings={"weights": str(options.weights), **named}
        )
    config = by_recipe(ULTRA_RECIPE, options)
    with training.progress(config.n_epochs) as on_epoch:
        completer, history = train_ultra_completer(
            training.splits.graph, training.splits.train, config=config,
            width=options.width or WIDTH, seed=training.seed, n_asked=options.ask, start=start,
            validate=training.validate, snapshots=training.snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    settings: dict[str, Any] = {"config": asdict(config), "asked": options.ask}
    settings |= {"weights": str(options.weights)} if start else {}
    return Trained(scorer=completer, history=history, settings=settings)


def train_nbfnet(training: Training) -> Trained:
    """Train NBFNet on the relations of a graph."""
    from kept.kgc.completers.nbfnet import train_nbfnet_completer
    from kept.kgc.completers.ultra import ULTRA_RECIPE, WIDTH

    options = training.options
    assert isinstance(options, PathOptions)
    config = by_recipe(ULTRA_RECIPE, options)
    with training.progress(config.n_epochs) as on_epoch:
        completer, history = train_nbfnet_completer(
            training.splits.graph, training.splits.train, config=config,
            width=options.width or WIDTH, seed=training.seed, n_asked=options.ask,
            validate=training.validate, snapshots=training.snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    settings = {"config": asdict(config), "asked": options.ask}
    return Trained(scorer=completer, history=history, settings=settings)


def train_simkgc(training: Training) -> Trained:
    """Train SimKGC's two encoders."""
    from kept.kgc.completers.texts.simkgc import SIMKGC_RECIPE, train_simkgc_completer

    options = training.options
    assert isinstance(options, SimKGCOptions)
    config = replace(
        SIMKGC_RECIPE, n_epochs=options.epochs or SIMKGC_RECIPE.n_epochs,
        batch_size=options.batch_size or SIMKGC_RECIPE.batch_size, n_steps=options.steps,
        n_tokens=options.tokens or SIMKGC_RECIPE.n_tokens,
    )  # fmt: skip
    host = options.host or HOST
    with training.progress(config.n_epochs) as on_epoch:
        completer, history = train_simkgc_completer(
            training.splits.graph, training.splits.train, host=host, config=config,
            seed=training.seed, validate=training.validate, snapshots=training.snapshots,
            on_epoch=on_epoch,
        )  # fmt: skip
    settings = {"config": asdict(config), "host": host}
    return Trained(scorer=completer, history=history, settings=settings)


def train_dkrl(training: Training) -> Trained:
    """Train DKRL for all epochs of the recipe: the last one is kept, whatever validation says."""
    from kept.kgc.completers.texts.dkrl import RECIPE, train_dkrl_completer

    options, splits = training.options, training.splits
    assert isinstance(options, TextOptions)
    config = replace(
        RECIPE, n_epochs=options.epochs or RECIPE.n_epochs,
        batch_size=options.batch_size or RECIPE.batch_size,
    )  # fmt: skip
    host, started = options.host or HOST, time.perf_counter()
    with training.progress(config.n_epochs) as on_epoch:
        completer, losses = train_dkrl_completer(
            splits.graph, splits.train, host=host, config=config, seed=training.seed,
            snapshots=training.snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    value = training.validate(completer.on(splits.graph, splits.train))
    seconds = time.perf_counter() - started
    n_epochs = len(losses)
    history = TrainingHistory(losses, ((n_epochs, value),), n_epochs, False, seconds, {})
    settings = {"config": asdict(config), "host": host}
    return Trained(scorer=completer, history=history, settings=settings)


def train_kepler(training: Training) -> Trained:
    """Train KEPLER on the source, or take a run of `kept pretrain` as it is (`weights`)."""
    from kept.kgc.completers.texts.kepler import (
        KEPLER_RECIPE,
        N_TOKENS,
        open_kepler_run,
        train_kepler_completer,
    )

    options = training.options
    assert isinstance(options, KeplerOptions)
    if options.weights is not None:
        others = options.model_fields_set - {"weights", "literals"}
        if others:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(others))
            raise ConfigError(f"{options.weights} is taken as it was trained: leave out {flags}")
        settings = {"weights": str(options.weights)}
        return Trained(scorer=open_kepler_run(options.weights), history=None, settings=settings)
    config = by_recipe(KEPLER_RECIPE, options)
    return _of_encoder(training, train_kepler_completer, config, N_TOKENS)


def train_colake(training: Training) -> Trained:
    """Train CoLAKE over texts of entities."""
    from kept.kgc.completers.texts.colake import (
        COLAKE_RECIPE,
        N_TOKENS,
        train_colake_completer,
    )

    options = training.options
    assert isinstance(options, EncoderOptions)
    config = by_recipe(COLAKE_RECIPE, options)
    return _of_encoder(training, train_colake_completer, config, N_TOKENS)


def fit_trained_mix(training: Training) -> Trained:
    """Fit the weights of trained scorers; nothing is trained, a mix that is cut is fitted anew."""
    options, splits = training.options, training.splits
    assert isinstance(options, MixOptions)
    if len(options.of) < 2:
        raise ConfigError(f"--scorer mix takes --of twice at least, {len(options.of)} given")
    parts = [
        MixPart(folder, open_completer(folder).completer if is_completer(folder) else None)
        for folder in options.of
    ]
    n = {"n_entities": splits.graph.n_entities, "n_relations": splits.graph.n_relations}
    known = Filter(splits.as_mapping(), **n)
    mixed = fit_mix(parts, splits, filter=known, seed=training.seed)
    settings = {"of": [str(folder) for folder in options.of]}
    return Trained(scorer=mixed, history=None, settings=settings)


def _settings(config: TrainingConfig, options: EncoderOptions) -> dict[str, Any]:
    return {"config": asdict(config), "host": options.host or HOST, "asked": options.ask}


def _of_encoder(
    training: Training,
    train: Callable[..., tuple[Any, TrainingHistory]],
    config: TrainingConfig,
    n_tokens: int,
) -> Trained:
    """Train the completer of a host that reads texts of entities."""
    options = training.options
    assert isinstance(options, EncoderOptions)
    with training.progress(config.n_epochs) as on_epoch:
        completer, history = train(
            training.splits.graph,
            training.splits.train,
            host=options.host or HOST,
            config=config,
            n_tokens=options.tokens or n_tokens,
            seed=training.seed,
            n_asked=options.ask,
            validate=training.validate,
            snapshots=training.snapshots,
            on_epoch=on_epoch,
        )
    return Trained(scorer=completer, history=history, settings=_settings(config, options))
