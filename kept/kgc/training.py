"""What the trainings of completers share; each training is in the file of its completer."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kept.kge.kinds import Training
from kept.kge.options import EncoderOptions, PathOptions
from kept.kge.training_config import TrainingConfig
from kept.randomness import generator

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


def queries_of(training: Training) -> NDArray[np.int64]:
    """Return the triples that an epoch asks: all, or `ask` of them, sampled once, in order."""
    rows, n_asked = np.asarray(training.splits.train, np.int64), training.options.ask
    if n_asked is None or n_asked >= len(rows):
        return rows
    sample = generator(training.seed, "asked triples").choice(len(rows), n_asked, replace=False)
    return np.asarray(rows[np.sort(sample)])


def encoder_settings(config: TrainingConfig, options: EncoderOptions) -> dict[str, Any]:
    """Return the settings of a training of a host's encoder, as its folder holds them."""
    return {"config": asdict(config), "host": options.host or HOST, "asked": options.ask}
