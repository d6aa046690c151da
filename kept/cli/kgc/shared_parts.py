"""What all trainings of `kept kgc train` share: validation, calibration, the record, the bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from kept.cli.console import TerminalConsole
from kept.cli.kgc.opening import filter_of
from kept.cli.kgc.train_options import TrainOptions, what_decides
from kept.cli.terminal import echo
from kept.evaluation.ranking import HasScores, rank
from kept.kge.calibration import Calibration, fit_calibration, questions_of
from kept.kge.splits import Splits
from kept.kge.training_config import TrainingConfig
from kept.randomness import generator

N_VALIDATED = 200
"""Validation triples that choose the epoch of a completer, sampled where there are more."""


def record_of(splits: Splits, options: TrainOptions) -> dict[str, Any]:
    return {
        "seed": options.seed, "holdout": options.holdout, "splits_hash": splits.splits_hash,
        "graph": splits.graph.id_space_hash, "literals": options.literals,
        "about": what_decides(options, splits),
    }  # fmt: skip


def by_recipe(recipe: TrainingConfig, options: TrainOptions) -> TrainingConfig:
    """A recipe with the options that were given.

    With `ask` it has no patience: epochs are short then, and one that validates worse is chance.
    """
    return replace(
        recipe, n_epochs=options.epochs or recipe.n_epochs,
        batch_size=options.batch_size or recipe.batch_size,
        patience=0 if options.ask else recipe.patience,
    )  # fmt: skip


def calibrated(
    scorer: HasScores, splits: Splits, triples: NDArray[np.integer], seed: int
) -> dict[str, Any]:
    """The calibration as `training` keeps it; nothing where one triple is all there is."""
    if len(triples) < 2:
        return {}
    questions = questions_of(scorer, triples, known=filter_of(splits), seed=seed)
    return {"calibration": fit_calibration(questions).as_json()}


def tell(output: Path, kind: str, history: Any, training: dict[str, Any]) -> None:
    echo(f"{output}: {kind}, {len(history.losses)} epochs in {history.seconds:.0f} s")
    for epoch, value in history.validations:
        echo(f"  epoch {epoch}: validation MRR {value:.4f}")
    if "calibration" in training:
        echo(str(Calibration.from_json(training["calibration"])))


def sampled(triples: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """At most `N_VALIDATED` of the validation triples."""
    if len(triples) <= N_VALIDATED:
        return triples
    chosen = generator(seed, "validation").choice(len(triples), N_VALIDATED, replace=False)
    return triples[np.sort(chosen)]


def mrr_over(splits: Splits, triples: NDArray[np.integer]) -> Callable[[HasScores], float]:
    known = filter_of(splits)

    def validate(current: HasScores) -> float:
        return rank(current, triples, filter=known, ties="realistic",
                    directions=("head", "tail"), candidates="all").mrr  # fmt: skip

    return validate


@contextmanager
def progress_bar(n_epochs: int) -> Iterator[Callable[[int, float], None]]:
    with Progress(console=TerminalConsole(stderr=True)) as progress:
        task = progress.add_task("training", total=n_epochs)

        def on_epoch(epoch: int, loss: float) -> None:
            progress.update(task, completed=epoch, description=f"loss {loss:.3f}")

        yield on_epoch
