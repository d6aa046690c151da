"""`kept kgc train` for completers: what they learn on one graph, they answer on any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kept.apps.cli.kgc.opening import filter_of
from kept.apps.cli.kgc.shared_parts import (
    by_recipe,
    calibrated,
    mrr_over,
    progress_bar,
    record_of,
    sampled,
    tell,
)
from kept.apps.cli.kgc.text_training import (
    trained_colake,
    trained_dkrl,
    trained_kepler,
    trained_simkgc,
)
from kept.apps.cli.kgc.train_options import TrainOptions
from kept.apps.cli.terminal import echo
from kept.errors import ConfigError
from kept.evaluation.ranking import HasScores
from kept.kgc.completers.base import Completer
from kept.kgc.completers.folders import is_completer, open_completer, save_completer
from kept.kgc.completers.mix import MixCompleter, MixPart, fit_mix
from kept.kgc.completers.seen import TrainedOn
from kept.kgc.kge.calibration import Calibration
from kept.kgc.kge.resuming.snapshots import Snapshots
from kept.kgc.kge.splits import Splits
from kept.kgc.mixing import SIDES

Validate = Callable[[HasScores], float]
Made = tuple[Completer, Any, dict[str, Any]]
"""A completer, its history (None: not trained), and what the record says of its settings."""


def train_completer(
    splits: Splits, output: Path, options: TrainOptions, snapshots: Snapshots, *, force: bool
) -> None:
    """Train one of `COMPLETERS`, or take released weights as they are, calibrate and save."""
    triples = sampled(splits.valid, options.seed)
    validate = mrr_over(splits, triples)
    makers = {
        "ultra": _trained_ultra, "nbfnet": _trained_nbfnet, "simkgc": trained_simkgc,
        "dkrl": trained_dkrl, "kepler": trained_kepler, "colake": trained_colake,
        "mix": _fitted_mix,
    }  # fmt: skip
    completer, history, config = makers[options.name](splits, options, validate, snapshots)
    training = record_of(splits, options) | config
    if history is not None:
        training |= {"losses": history.losses, "validations": history.validations,
                     "best_epoch": history.best_epoch}  # fmt: skip
    scorer = completer.on(splits.graph, splits.train)
    training |= calibrated(scorer, splits, triples, options.seed)
    own = None if options.weights else TrainedOn.of(splits.graph, splits.train)
    save_completer(output, completer, own, training, force=force)
    if isinstance(completer, MixCompleter):
        _tell_mix(output, completer)
    elif history is None:
        echo(f"{output}: {options.name} with the weights of {options.weights}, not trained")
        echo(str(Calibration.from_json(training["calibration"])))
    else:
        tell(output, options.name, history, training)
        of = f" of {len(splits.valid)}" if len(triples) < len(splits.valid) else ""
        echo(f"the weights of epoch {history.best_epoch} were kept, by {len(triples)}{of} "
             "validation triples")  # fmt: skip
    if own is None:
        echo("what these weights were trained on is not recorded: kept audit --against")


def _trained_ultra(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    from kept.kgc.completers.ultra import (
        ULTRA_RECIPE,
        WIDTH,
        open_ultra,
        train_ultra_completer,
    )
    from kept.kgc.kge.ultra.released import released

    start = None if options.weights is None else open_ultra(options.weights)
    known = None if start is None else released(start.weights())
    if known is not None:
        echo(str(known))
    if start is not None and options.width not in (None, start.width):
        raise ConfigError(f"{options.weights} is {start.width} wide, --width says {options.width}")
    if start is not None and options.epochs is None:
        named = {} if known is None else {"released": known.name}
        return start, None, {"weights": str(options.weights), **named}
    config = by_recipe(ULTRA_RECIPE, options)
    with progress_bar(config.n_epochs) as on_epoch:
        completer, history = train_ultra_completer(
            splits.graph, splits.train, config=config, width=options.width or WIDTH,
            seed=options.seed, n_asked=options.ask, start=start, validate=validate,
            snapshots=snapshots, on_epoch=on_epoch,
        )  # fmt: skip
    told = {"config": asdict(config), "asked": options.ask}
    return completer, history, told | ({"weights": str(options.weights)} if start else {})


def _trained_nbfnet(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    from kept.kgc.completers.nbfnet import train_nbfnet_completer
    from kept.kgc.completers.ultra import ULTRA_RECIPE, WIDTH

    config = by_recipe(ULTRA_RECIPE, options)
    with progress_bar(config.n_epochs) as on_epoch:
        completer, history = train_nbfnet_completer(
            splits.graph, splits.train, config=config, width=options.width or WIDTH,
            seed=options.seed, n_asked=options.ask, validate=validate, snapshots=snapshots,
            on_epoch=on_epoch,
        )  # fmt: skip
    return completer, history, {"config": asdict(config), "asked": options.ask}


def _fitted_mix(
    splits: Splits, options: TrainOptions, validate: Validate, snapshots: Snapshots
) -> Made:
    """Nothing is trained: a mix that is cut is fitted anew."""
    del validate, snapshots
    if len(options.of) < 2:
        raise ConfigError(f"--scorer mix takes --of twice at least, {len(options.of)} given")
    parts = [
        MixPart(place, open_completer(place).completer if is_completer(place) else None)
        for place in options.of
    ]
    mixed = fit_mix(parts, splits, filter=filter_of(splits), seed=options.seed)
    return mixed, None, {"of": [str(place) for place in options.of]}


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
            echo(f"  {side}s: no scorer tells right answers from others, so all of them tie")
            continue
        share = weights / weights.sum()
        shown = ", ".join(f"{n} {one:.2f}" for n, one in zip(names, share, strict=True))
        echo(f"  shares for {side}s: {shown}")
