"""What `kept kgc train` writes of a completer: what it learns on one graph, it answers on any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kept.apps.cli.kgc.shared_parts import calibrated, print_result, record_of
from kept.apps.cli.kgc.train_options import TrainOptions
from kept.apps.cli.terminal import echo
from kept.kgc.completers.folders import save_completer
from kept.kgc.completers.mix import MixCompleter
from kept.kgc.completers.seen import TrainedOn
from kept.kgc.mixing import SIDES
from kept.kge.calibration import Calibration
from kept.kge.kinds import Trained
from kept.kge.splits import Splits


def save_trained_completer(
    splits: Splits,
    output: Path,
    options: TrainOptions,
    trained: Trained,
    triples: NDArray[np.integer],
    *,
    force: bool,
) -> None:
    """Calibrate on the validation `triples`, save, and print what came of it."""
    completer, history = trained.scorer, trained.history
    training = record_of(splits, options) | trained.settings
    if history is not None:
        training |= {"losses": history.losses, "validations": history.validations,
                     "best_epoch": history.best_epoch}  # fmt: skip
    scorer = completer.on(splits.graph, splits.train)
    training |= calibrated(scorer, splits, triples, options.seed)
    trained_on = None if options.weights else TrainedOn.of(splits.graph, splits.train)
    save_completer(output, completer, trained_on, training, force=force)
    if isinstance(completer, MixCompleter):
        _tell_mix(output, completer)
    elif history is None:
        echo(f"{output}: {options.name} with the weights of {options.weights}, not trained")
        echo(str(Calibration.from_json(training["calibration"])))
    else:
        print_result(output, options.name, history, training)
        of = f" of {len(splits.valid)}" if len(triples) < len(splits.valid) else ""
        echo(f"the weights of epoch {history.best_epoch} were kept, by {len(triples)}{of} "
             "validation triples")  # fmt: skip
    if trained_on is None:
        echo("what these weights were trained on is not recorded: kept audit --against")


def _tell_mix(output: Path, mix: MixCompleter) -> None:
    names = [part.name for part in mix.parts]
    tried = list(mix.mixture.tried.items())
    echo(f"{output}: a mix of {', '.join(names)}, weights by {mix.mixture.level}")
    for name, (_, value) in zip(names, tried, strict=False):
        echo(f"  {name} alone: validation MRR {value:.4f}")
    for level, value in tried[len(names) :]:
        echo(f"  mixed, weights by {level}: {value:.4f} (on halves that the fit did not see)")
    for side, weights in zip(SIDES, mix.mixture.weights.mean(1), strict=True):
        if not weights.any():
            echo(
                f"  {side}s: no scorer ranks right answers above others, so all have the "
                f"same weight"
            )
            continue
        share = weights / weights.sum()
        weights_text = ", ".join(f"{n} {one:.2f}" for n, one in zip(names, share, strict=True))
        echo(f"  shares for {side}s: {weights_text}")
