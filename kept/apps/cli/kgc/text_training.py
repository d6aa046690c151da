"""`kept kgc train` for completers that read texts: SimKGC, DKRL, KEPLER and CoLAKE."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from kept.apps.cli.kgc.shared_parts import by_recipe, progress_bar
from kept.apps.cli.kgc.train_options import TrainOptions
from kept.errors import ConfigError
from kept.evaluation.ranking import HasScores
from kept.kgc.completers.base import Completer
from kept.kgc.kge.resuming.epochs import TrainingHistory
from kept.kgc.kge.resuming.snapshots import Snapshots
from kept.kgc.kge.splits import Splits
from kept.kgc.kge.training_config import TrainingConfig

Validate = Callable[[HasScores], float]
Made = tuple[Completer, Any, dict[str, Any]]
HOST = "minilm"


def trained_simkgc(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    from kept.kgc.completers.texts.simkgc import SIMKGC_RECIPE, train_simkgc_completer

    config = replace(
        SIMKGC_RECIPE, n_epochs=options.epochs or SIMKGC_RECIPE.n_epochs,
        batch_size=options.batch_size or SIMKGC_RECIPE.batch_size, n_steps=options.steps,
        n_tokens=options.tokens or SIMKGC_RECIPE.n_tokens,
    )  # fmt: skip
    host = options.host or HOST
    with progress_bar(config.n_epochs) as on_epoch:
        completer, history = train_simkgc_completer(
            splits.graph, splits.train, host=host, config=config, seed=options.seed,
            validate=validate, snapshots=snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    return completer, history, {"config": asdict(config), "host": host}


def trained_dkrl(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    """All epochs of the recipe: nothing is chosen by validation, the last one is told."""
    from kept.kgc.completers.texts.dkrl import RECIPE, train_dkrl_completer

    config = replace(
        RECIPE, n_epochs=options.epochs or RECIPE.n_epochs,
        batch_size=options.batch_size or RECIPE.batch_size,
    )  # fmt: skip
    host, started = options.host or HOST, time.perf_counter()
    with progress_bar(config.n_epochs) as on_epoch:
        completer, losses = train_dkrl_completer(
            splits.graph, splits.train, host=host, config=config, seed=options.seed,
            snapshots=snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    value = validate(completer.on(splits.graph, splits.train))
    history = TrainingHistory(
        losses, ((len(losses), value),), len(losses), False, time.perf_counter() - started, {}
    )  # fmt: skip
    return completer, history, {"config": asdict(config), "host": host}


def trained_kepler(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    """Trained on the source, or a run of `kept pretrain` as it is (`weights`)."""
    from kept.kgc.completers.texts.kepler import (
        KEPLER_RECIPE,
        N_TOKENS,
        open_kepler_run,
        train_kepler_completer,
    )

    if options.weights is not None:
        given = {"epochs", "host", "batch_size", "tokens", "ask"} & {
            name for name, value in asdict(options).items() if value is not None
        }
        if given:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(given))
            raise ConfigError(f"{options.weights} is taken as it was trained: leave out {flags}")
        return open_kepler_run(options.weights), None, {"weights": str(options.weights)}
    config = by_recipe(KEPLER_RECIPE, options)
    with progress_bar(config.n_epochs) as on_epoch:
        completer, history = train_kepler_completer(
            splits.graph, splits.train, host=options.host or HOST, config=config,
            n_tokens=options.tokens or N_TOKENS, seed=options.seed, n_asked=options.ask,
            validate=validate, snapshots=snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    return completer, history, _told(config, options)


def trained_colake(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    from kept.kgc.completers.texts.colake import (
        COLAKE_RECIPE,
        N_TOKENS,
        train_colake_completer,
    )

    config = by_recipe(COLAKE_RECIPE, options)
    with progress_bar(config.n_epochs) as on_epoch:
        completer, history = train_colake_completer(
            splits.graph, splits.train, host=options.host or HOST, config=config,
            n_tokens=options.tokens or N_TOKENS, seed=options.seed, n_asked=options.ask,
            validate=validate, snapshots=snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    return completer, history, _told(config, options)


def _told(config: TrainingConfig, options: TrainOptions) -> dict[str, Any]:
    return {"config": asdict(config), "host": options.host or HOST, "asked": options.ask}
