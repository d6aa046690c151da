"""`kept kgc train`: tables of vectors and graph networks; completers are in a module beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from kept.apps.cli.kgc.completer_training import train_completer
from kept.apps.cli.kgc.opening import tell_shared
from kept.apps.cli.kgc.shared_parts import calibrated, mrr_over, progress_bar, record_of, tell
from kept.apps.cli.kgc.train_options import TEXTS, TrainOptions, require_options, what_decides
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.evaluation.ranking import HasScores
from kept.kgc.completers.base import COMPLETERS
from kept.kgc.completers.texts.literals import with_literals
from kept.kgc.kge.comparisons import Norm
from kept.kgc.kge.memory import keep_freed_memory
from kept.kgc.kge.reciprocal import make_reciprocal
from kept.kgc.kge.resuming.epochs import TrainingHistory
from kept.kgc.kge.resuming.snapshots import Snapshots, remove_unfinished
from kept.kgc.kge.scorers import Scorer, make_scorer
from kept.kgc.kge.splits import STRATA, Splits, read_splits
from kept.kgc.kge.trained import KIND, is_scorer, read_description, save_scorer, unseen_ids
from kept.kgc.kge.training import train
from kept.kgc.kge.training_config import NETWORK_RECIPES, RECIPES, BERTMKRecipe
from kg_loaders.disk.writing import claim, refuse_folder, tidy

HALF_DONE = ".training"
"""Behind the name of an output: the folder of its half-done training."""


def train_scorer(
    source: Path, output: Path, options: TrainOptions, *, force: bool, every_seconds: float
) -> None:
    """Train by recipe with a progress bar, calibrate on validation and save.

    The state of the training lies in `OUTPUT.training` until the scorer stands; the same call goes
    on from it, to the same scorer. `force` also gives up the half-done training of other options.
    """
    keep_freed_memory()
    weights = [] if options.weights is None else [options.weights]
    inputs = [source, *weights, *options.of]
    half_done = output.with_name(output.name + HALF_DONE)
    if not force:
        _tidy_finished(output, half_done)
    refuse_folder(output, kind=KIND, is_kind=is_scorer, force=force, inputs=inputs)
    require_options(options)
    splits = read_splits(source, holdout=options.holdout, seed=options.seed)
    options = replace(options, literals=options.literals or _parts_read_literals(options))
    if options.literals:
        splits = with_literals(splits, source)
    tell_shared(splits)
    output.parent.mkdir(parents=True, exist_ok=True)
    with claim(half_done):
        about = what_decides(options, splits)
        snapshots = Snapshots(half_done, about, every_seconds=every_seconds)
        if force and snapshots.is_of_another:
            remove_unfinished(half_done)
        if snapshots.is_there:
            echo(f"goes on with {half_done}")
        if options.name in COMPLETERS:
            train_completer(splits, output, options, snapshots, force=force)
        else:
            _train_table(splits, output, options, snapshots, force=force)
        snapshots.remove()


def _parts_read_literals(options: TrainOptions) -> bool:
    """Whether the scorers of a mix that read texts were trained with literals; ConfigError: some.

    What one of them reads, all of them read.
    """
    told = [read_description(place) for place in options.of]
    reads = {bool(one["training"].get("literals")) for one in told if one["scorer"] in TEXTS}
    if len(reads) > 1:
        raise ConfigError(
            "the mix joins scorers that were trained with --literals and without; train them alike"
        )
    return reads == {True}


def _tidy_finished(output: Path, half_done: Path) -> None:
    """Remove what the training of the scorer that stands left, where it was killed at the end."""
    if not is_scorer(output):
        return
    tidy(output, half_done)
    if not half_done.is_dir():
        return
    about = read_description(output)["training"].get("about")
    left = Snapshots(half_done, about or {}, every_seconds=0)
    if about is not None and left.is_there and not left.is_of_another:
        left.remove()


def _train_table(
    splits: Splits, output: Path, options: TrainOptions, snapshots: Snapshots, *, force: bool
) -> None:
    draws = torch.Generator().manual_seed(options.seed)
    make = _trained_network if options.name in NETWORK_RECIPES else _trained_scorer
    scorer, history, config = make(splits, draws, options, snapshots)
    chosen_by = _chosen_by(splits)
    training = record_of(splits, options) | {
        "unseen": unseen_ids(splits), "losses": history.losses,
        "validations": history.validations, "best_epoch": history.best_epoch, **config,
        **calibrated(scorer, splits, chosen_by, options.seed),
    }  # fmt: skip
    save_scorer(output, scorer, splits.graph, training, force=force)
    kind = f"{options.name} with inverse relations" if options.reciprocal else options.name
    tell(output, kind, history, training)
    if history.validations:
        n_asked, n_valid = len(chosen_by), len(splits.valid)
        if n_asked < n_valid:
            echo(f"by the {n_asked} of {n_valid} validation triples that training has seen all of")
        early = ", training stopped early" if history.stopped_early else ""
        echo(f"the weights of epoch {history.best_epoch} were kept{early}")


def _trained_scorer(
    splits: Splits, draws: torch.Generator, options: TrainOptions, snapshots: Snapshots
) -> tuple[Scorer, TrainingHistory, dict[str, Any]]:
    """A scorer trained by its recipe, and the configuration."""
    recipe_width, config = RECIPES[options.name]
    config = replace(config, n_epochs=options.epochs or config.n_epochs)
    make = make_reciprocal if options.reciprocal else make_scorer
    scorer: Scorer = make(
        options.name, n_entities=splits.graph.n_entities, n_relations=splits.graph.n_relations,
        width=options.width or recipe_width, generator=draws,
        norm=cast(Norm | None, options.norm),
    )  # fmt: skip
    with progress_bar(config.n_epochs) as on_epoch:
        history = train(
            scorer, splits.train, config=config, generator=draws, validate=_validation(splits),
            snapshots=snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    return scorer, history, {"config": asdict(config)}


def _trained_network(
    splits: Splits, draws: torch.Generator, options: TrainOptions, snapshots: Snapshots
) -> tuple[Scorer, TrainingHistory, dict[str, Any]]:
    """The decoder over a trained network's states, and the configuration."""
    from kept.kgc.kge.gnn.bertmk import train_bertmk
    from kept.kgc.kge.gnn.recipes import train_network  # torch-geometric takes seconds to import

    if options.reciprocal or options.norm is not None:
        raise ConfigError(
            f"{options.name} reads inverse relations as it is: no --reciprocal, no --norm"
        )
    recipe = NETWORK_RECIPES[options.name]
    config = replace(recipe.config, n_epochs=options.epochs or recipe.config.n_epochs)
    recipe = replace(recipe, config=config, width=options.width or recipe.width)
    with progress_bar(config.n_epochs) as on_epoch:
        given: dict[str, Any] = {
            "generator": draws, "validate": _validation(splits), "snapshots": snapshots,
            "on_epoch": on_epoch,
        }  # fmt: skip
        if isinstance(recipe, BERTMKRecipe):
            scorer, history = train_bertmk(splits, recipe, **given)
        else:
            scorer, history = train_network(splits, recipe, **given)
    return scorer, history, {"config": asdict(config), "network": recipe.as_json()}


def _validation(splits: Splits) -> Callable[[HasScores], float]:
    """MRR over the triples that choose an epoch."""
    return mrr_over(splits, _chosen_by(splits))


def _chosen_by(splits: Splits) -> NDArray[np.integer]:
    """The validation triples that choose an epoch: those of what training sees, as in evaluation.

    Ranks of vectors that were never trained are noise; without a seen triple there are no others.
    """
    is_seen = splits.seen.strata(splits.valid) == STRATA[0]
    return splits.valid[is_seen] if is_seen.any() else splits.valid
