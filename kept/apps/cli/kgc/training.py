"""`kept kgc train`: any scorer of the table, calibrated and saved."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.apps.cli.kgc.completer_training import save_trained_completer
from kept.apps.cli.kgc.opening import warn_about_leaks
from kept.apps.cli.kgc.shared_parts import (
    calibrated,
    mrr_over,
    print_result,
    progress_bar,
    record_of,
    sampled,
)
from kept.apps.cli.kgc.train_options import TrainOptions, training_fingerprint
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.kgc.completers.texts.literals import with_literals
from kept.kge.kinds import SCORERS, Trained, Training
from kept.kge.memory import keep_freed_memory
from kept.kge.reciprocal import Reciprocal
from kept.kge.resuming.snapshots import Snapshots, remove_unfinished
from kept.kge.splits import STRATA, Splits, read_splits
from kept.kge.trained import SCORER, is_scorer, read_description, save_scorer, unseen_ids
from kg_loaders.disk.columns import replaced
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
    inputs = [source, *weights, *options.parts]
    half_done = Path(f"{output if output.name else os.path.abspath(output)}{HALF_DONE}")
    if not force:
        _tidy_finished(output, half_done)
    refuse_folder(output, **replaced(SCORER), force=force, inputs=inputs)
    splits = read_splits(source, holdout=options.holdout, seed=options.seed)
    options = replace(options, literals=options.literals or _parts_read_literals(options))
    if options.literals:
        splits = with_literals(splits, source)
    warn_about_leaks(splits)
    output.parent.mkdir(parents=True, exist_ok=True)
    with claim(half_done):  # while this one waited, another may have written the scorer
        refuse_folder(output, **replaced(SCORER), force=force, inputs=inputs)
        about = training_fingerprint(options, splits)
        snapshots = Snapshots(half_done, about, every_seconds=every_seconds)
        if force and snapshots.is_of_another:
            remove_unfinished(half_done)
        if snapshots.is_there:
            echo(f"goes on with {half_done}")
        _train(splits, output, options, snapshots, force=force)
        snapshots.remove()


def _parts_read_literals(options: TrainOptions) -> bool:
    """Whether the scorers of a mix that read texts were trained with literals; ConfigError: some.

    What one of them reads, all of them read.
    """
    parts = [read_description(folder) for folder in options.parts]
    readers = [part for part in parts if SCORERS[part["scorer"]].reads == "texts"]
    reads = {bool(part["training"].get("literals")) for part in readers}
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


def _train(
    splits: Splits, output: Path, options: TrainOptions, snapshots: Snapshots, *, force: bool
) -> None:
    """Train the scorer by its line, calibrate it and save it."""
    is_completer = options.kind.answers_any_graph
    triples = sampled(splits.valid, options.seed) if is_completer else _chosen_by(splits)
    trained = options.kind.trained(
        Training(
            name=options.name, splits=splits, options=options.scorer, seed=options.seed,
            validate=mrr_over(splits, triples), snapshots=snapshots, progress=progress_bar,
            note=echo,
        )
    )  # fmt: skip
    if is_completer:
        save_trained_completer(splits, output, options, trained, triples, force=force)
    else:
        _save_table(splits, output, options, trained, triples, force=force)


def _save_table(
    splits: Splits,
    output: Path,
    options: TrainOptions,
    trained: Trained,
    chosen_by: NDArray[np.integer],
    *,
    force: bool,
) -> None:
    history = trained.history
    training = record_of(splits, options) | {
        "unseen": unseen_ids(splits), "losses": history.losses,
        "validations": history.validations, "best_epoch": history.best_epoch, **trained.settings,
        **calibrated(trained.scorer, splits, chosen_by, options.seed),
    }  # fmt: skip
    save_scorer(output, trained.scorer, splits.graph, training, force=force)
    has_inverses = isinstance(trained.scorer, Reciprocal)
    kind = f"{options.name} with inverse relations" if has_inverses else options.name
    print_result(output, kind, history, training)
    if history.validations:
        n_asked, n_valid = len(chosen_by), len(splits.valid)
        if n_asked < n_valid:
            echo(f"by the {n_asked} of {n_valid} validation triples that training has seen all of")
        early = ", training stopped early" if history.stopped_early else ""
        echo(f"the weights of epoch {history.best_epoch} were kept{early}")


def _chosen_by(splits: Splits) -> NDArray[np.integer]:
    """The validation triples that choose an epoch: those of what training sees, as in evaluation.

    Ranks of vectors that were never trained are noise; without a seen triple there are no others.
    """
    is_seen = splits.seen.strata(splits.valid) == STRATA[0]
    return splits.valid[is_seen] if is_seen.any() else splits.valid
