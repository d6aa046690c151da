"""What all trainings of `kept kgc train` share: validation, calibration, the record, the bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from kept.apps.cli.console import TerminalConsole
from kept.apps.cli.kgc.opening import filter_of
from kept.apps.cli.kgc.train_options import TrainOptions, training_fingerprint
from kept.apps.cli.terminal import echo
from kept.evaluation.ranking import HasScores, rank
from kept.kge.calibration import Calibration, fit_calibration, questions_of
from kept.kge.splits import Splits
from kept.randomness import generator
from kept.training.costs import minutes_in_words

LINE_SECONDS = 10.0
"""Between two lines on how far a training is, where there is no terminal for a bar."""
N_VALIDATED = 200
"""Validation triples that choose the epoch of a completer, sampled where there are more."""


def record_of(splits: Splits, options: TrainOptions) -> dict[str, Any]:
    return {
        "seed": options.seed, "holdout": options.holdout, "splits_hash": splits.splits_hash,
        "graph": splits.graph.id_space_hash, "literals": options.literals,
        "about": training_fingerprint(options, splits),
    }  # fmt: skip


def calibrated(
    scorer: HasScores, splits: Splits, triples: NDArray[np.integer], seed: int
) -> dict[str, Any]:
    """The calibration as `training` keeps it; nothing where one triple is all there is."""
    if len(triples) < 2:
        return {}
    questions = questions_of(scorer, triples, filter=filter_of(splits), seed=seed)
    return {"calibration": fit_calibration(questions).as_json()}


def print_result(output: Path, kind: str, history: Any, training: dict[str, Any]) -> None:
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
    """Yield what a training calls after each epoch: a bar, or lines where there is no terminal."""
    console = TerminalConsole(stderr=True)
    if not console.is_terminal:
        yield _EpochLines(n_epochs, console)
        return
    with Progress(console=console) as progress:
        task = progress.add_task("training", total=n_epochs)

        def on_epoch(epoch: int, loss: float) -> None:
            progress.update(task, completed=epoch, description=f"loss {loss:.3f}")

        yield on_epoch


class _EpochLines:
    """Prints a line after the first epoch, the last, and every `LINE_SECONDS` between them."""

    def __init__(self, n_epochs: int, console: TerminalConsole) -> None:
        self._n_epochs, self._console = n_epochs, console
        self._started = self._printed = time.monotonic()
        self._first: int | None = None

    def __call__(self, epoch: int, loss: float) -> None:
        now = time.monotonic()
        is_first, self._first = self._first is None, self._first or epoch
        if not is_first and epoch < self._n_epochs and now - self._printed < LINE_SECONDS:
            return
        self._printed = now
        n_done, n_left = epoch - self._first + 1, self._n_epochs - epoch
        left = minutes_in_words((now - self._started) / n_done * n_left) if n_left else "the last"
        ending = f"about {left} left at most" if n_left else left
        self._console.print(f"epoch {epoch} of {self._n_epochs}: loss {loss:.3f}, {ending}")
