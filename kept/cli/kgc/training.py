"""`kept kgc train`: tables of vectors, graph networks and completers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress

from kept.cli.console import TerminalConsole
from kept.cli.kgc.opening import filter_of, tell_shared
from kept.cli.terminal import echo
from kept.completion.completers.base import COMPLETERS, Completer
from kept.completion.completers.folders import save_completer
from kept.completion.completers.seen import TrainedOn
from kept.errors import ConfigError
from kept.evaluation.ranking import HasScores, rank
from kept.kge.calibration import Calibration, fit_calibration, questions_of
from kept.kge.comparisons import Norm
from kept.kge.reciprocal import make_reciprocal
from kept.kge.scorers import Scorer, make_scorer
from kept.kge.splits import STRATA, Splits, read_splits
from kept.kge.trained import KIND, is_scorer, save_scorer, unseen_ids
from kept.kge.training import TrainingHistory, train
from kept.kge.training_config import NETWORK_RECIPES, RECIPES, BERTMKRecipe
from kept.randomness import generator
from kg_loaders.disk.writing import refuse_folder

N_VALIDATED = 200
"""Validation triples that choose the epoch of a completer, sampled where there are more."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What `kept kgc train` was told; None: the recipe's."""

    name: str
    seed: int
    holdout: float
    reciprocal: bool = False
    epochs: int | None = None
    width: int | None = None
    norm: int | None = None
    host: str | None = None
    batch_size: int | None = None
    steps: int | None = None
    tokens: int | None = None
    ask: int | None = None
    weights: Path | None = None


TABLES = frozenset({"reciprocal", "epochs", "width", "norm"})
TAKES = {
    "ultra": frozenset({"epochs", "width", "batch_size", "ask", "weights"}),
    "simkgc": frozenset({"epochs", "host", "batch_size", "steps", "tokens"}),
    "dkrl": frozenset({"epochs", "host", "batch_size"}),
}
"""Options of a scorer; all others take those of `TABLES`."""


def train_scorer(source: Path, output: Path, options: TrainOptions, *, force: bool) -> None:
    """Train by recipe with a progress bar, calibrate on validation and save."""
    inputs = [source] if options.weights is None else [source, options.weights]
    refuse_folder(output, kind=KIND, is_kind=is_scorer, force=force, inputs=inputs)
    _require_options(options)
    splits = read_splits(source, holdout=options.holdout, seed=options.seed)
    tell_shared(splits)
    if options.name in COMPLETERS:
        _completer(splits, output, options, force=force)
        return
    draws = torch.Generator().manual_seed(options.seed)
    make = _trained_network if options.name in NETWORK_RECIPES else _trained_scorer
    scorer, history, config = make(
        splits, draws, name=options.name, reciprocal=options.reciprocal, epochs=options.epochs,
        width=options.width, norm=options.norm,
    )  # fmt: skip
    chosen_by = _chosen_by(splits)
    training = _training(splits, options) | {
        "unseen": unseen_ids(splits), "losses": history.losses,
        "validations": history.validations, "best_epoch": history.best_epoch, **config,
        **_calibrated(scorer, splits, chosen_by, options.seed),
    }  # fmt: skip
    save_scorer(output, scorer, splits.graph, training, force=force)
    kind = f"{options.name} with inverse relations" if options.reciprocal else options.name
    _tell(output, kind, history, training)
    if history.validations:
        n_asked, n_valid = len(chosen_by), len(splits.valid)
        if n_asked < n_valid:
            echo(f"by the {n_asked} of {n_valid} validation triples that training has seen all of")
        early = ", training stopped early" if history.stopped_early else ""
        echo(f"the weights of epoch {history.best_epoch} were kept{early}")


def _require_options(options: TrainOptions) -> None:
    """Raise `ConfigError` for an unknown scorer, and for options that are not its own."""
    known = [*RECIPES, *NETWORK_RECIPES, *COMPLETERS]
    if options.name not in known:
        raise ConfigError(f"scorer {options.name!r} is unknown; take one of {', '.join(known)}")
    takes = TAKES.get(options.name, TABLES)
    given = {name: value for name, value in asdict(options).items() if value not in (None, False)}
    odd = sorted(given.keys() - takes - {"name", "seed", "holdout"})
    if odd:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in odd)
        raise ConfigError(
            f"{options.name} takes no {flags}; it takes "
            + ", ".join(f"--{name.replace('_', '-')}" for name in sorted(takes))
        )


def _training(splits: Splits, options: TrainOptions) -> dict[str, Any]:
    return {
        "seed": options.seed, "holdout": options.holdout, "splits_hash": splits.splits_hash,
        "graph": splits.graph.id_space_hash,
    }  # fmt: skip


def _calibrated(
    scorer: HasScores, splits: Splits, triples: NDArray[np.integer], seed: int
) -> dict[str, Any]:
    """The calibration as `training` keeps it; nothing where one triple is all there is."""
    if len(triples) < 2:
        return {}
    questions = questions_of(scorer, triples, known=filter_of(splits), seed=seed)
    return {"calibration": fit_calibration(questions).as_json()}


def _tell(output: Path, kind: str, history: Any, training: dict[str, Any]) -> None:
    echo(f"{output}: {kind}, {len(history.losses)} epochs in {history.seconds:.0f} s")
    for epoch, value in history.validations:
        echo(f"  epoch {epoch}: validation MRR {value:.4f}")
    if "calibration" in training:
        echo(str(Calibration.from_json(training["calibration"])))


def _completer(splits: Splits, output: Path, options: TrainOptions, *, force: bool) -> None:
    """Train ULTRA or SimKGC, or take released weights as they are."""
    triples = _sampled(splits.valid, options.seed)
    validate = _mrr(splits, triples)
    makers = {"ultra": _trained_ultra, "simkgc": _trained_simkgc, "dkrl": _trained_dkrl}
    completer, history, config = makers[options.name](splits, options, validate)
    training = _training(splits, options) | config
    if history is not None:
        training |= {"losses": history.losses, "validations": history.validations,
                     "best_epoch": history.best_epoch}  # fmt: skip
    scorer = completer.on(splits.graph, splits.train)
    training |= _calibrated(scorer, splits, triples, options.seed)
    own = None if options.weights else TrainedOn.of(splits.graph, splits.train)
    save_completer(output, completer, own, training, force=force)
    if history is None:
        echo(f"{output}: {options.name} with the weights of {options.weights}, not trained")
        echo(str(Calibration.from_json(training["calibration"])))
    else:
        _tell(output, options.name, history, training)
        of = f" of {len(splits.valid)}" if len(triples) < len(splits.valid) else ""
        echo(f"the weights of epoch {history.best_epoch} were kept, by {len(triples)}{of} "
             "validation triples")  # fmt: skip
    if own is None:
        echo("what these weights were trained on is not recorded: kept audit --against")


def _trained_ultra(
    splits: Splits, options: TrainOptions, validate: Callable[[HasScores], float]
) -> tuple[Completer, Any, dict[str, Any]]:
    from kept.completion.completers.ultra import (
        ULTRA_RECIPE,
        WIDTH,
        open_ultra,
        train_ultra_completer,
    )

    start = None if options.weights is None else open_ultra(options.weights)
    if start is not None and options.width not in (None, start.width):
        raise ConfigError(f"{options.weights} is {start.width} wide, --width says {options.width}")
    if start is not None and options.epochs is None:
        return start, None, {"weights": str(options.weights)}
    config = replace(
        ULTRA_RECIPE, n_epochs=options.epochs or ULTRA_RECIPE.n_epochs,
        batch_size=options.batch_size or ULTRA_RECIPE.batch_size,
    )  # fmt: skip
    with _progress(config.n_epochs) as on_epoch:
        completer, history = train_ultra_completer(
            splits.graph, splits.train, config=config, width=options.width or WIDTH,
            seed=options.seed, n_asked=options.ask, start=start, validate=validate,
            on_epoch=on_epoch,
        )  # fmt: skip
    told = {"config": asdict(config), "asked": options.ask}
    return completer, history, told | ({"weights": str(options.weights)} if start else {})


def _trained_simkgc(
    splits: Splits, options: TrainOptions, validate: Callable[[HasScores], float]
) -> tuple[Completer, Any, dict[str, Any]]:
    from kept.completion.completers.simkgc import SIMKGC_RECIPE, train_simkgc_completer

    config = replace(
        SIMKGC_RECIPE, n_epochs=options.epochs or SIMKGC_RECIPE.n_epochs,
        batch_size=options.batch_size or SIMKGC_RECIPE.batch_size, n_steps=options.steps,
        n_tokens=options.tokens or SIMKGC_RECIPE.n_tokens,
    )  # fmt: skip
    host = options.host or "minilm"
    with _progress(config.n_epochs) as on_epoch:
        completer, history = train_simkgc_completer(
            splits.graph, splits.train, host=host, config=config, seed=options.seed,
            validate=validate, on_epoch=on_epoch,
        )  # fmt: skip
    return completer, history, {"config": asdict(config), "host": host}


def _trained_dkrl(
    splits: Splits, options: TrainOptions, validate: Callable[[HasScores], float]
) -> tuple[Completer, Any, dict[str, Any]]:
    """All epochs of the recipe: nothing is chosen by validation, the last one is told."""
    from kept.completion.completers.dkrl import RECIPE, train_dkrl_completer

    config = replace(
        RECIPE, n_epochs=options.epochs or RECIPE.n_epochs,
        batch_size=options.batch_size or RECIPE.batch_size,
    )  # fmt: skip
    host, started = options.host or "minilm", time.perf_counter()
    with _progress(config.n_epochs) as on_epoch:
        completer, losses = train_dkrl_completer(
            splits.graph, splits.train, host=host, config=config, seed=options.seed,
            on_epoch=on_epoch,
        )  # fmt: skip
    value = validate(completer.on(splits.graph, splits.train))
    history = TrainingHistory(
        losses, ((len(losses), value),), len(losses), False, time.perf_counter() - started, {}
    )  # fmt: skip
    return completer, history, {"config": asdict(config), "host": host}


def _sampled(triples: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """At most `N_VALIDATED` of the validation triples."""
    if len(triples) <= N_VALIDATED:
        return triples
    chosen = generator(seed, "validation").choice(len(triples), N_VALIDATED, replace=False)
    return triples[np.sort(chosen)]


def _trained_scorer(
    splits: Splits,
    draws: torch.Generator,
    *,
    name: str,
    reciprocal: bool,
    epochs: int | None,
    width: int | None,
    norm: int | None,
) -> tuple[Scorer, TrainingHistory, dict[str, Any]]:
    """A scorer trained by its recipe, and the configuration."""
    recipe_width, config = RECIPES[name]
    config = replace(config, n_epochs=epochs or config.n_epochs)
    make = make_reciprocal if reciprocal else make_scorer
    scorer: Scorer = make(
        name, n_entities=splits.graph.n_entities, n_relations=splits.graph.n_relations,
        width=width or recipe_width, generator=draws, norm=cast(Norm | None, norm),
    )  # fmt: skip
    with _progress(config.n_epochs) as on_epoch:
        history = train(scorer, splits.train, config=config, generator=draws,
                        validate=_validation(splits), on_epoch=on_epoch)  # fmt: skip
    return scorer, history, {"config": asdict(config)}


def _trained_network(
    splits: Splits,
    draws: torch.Generator,
    *,
    name: str,
    reciprocal: bool,
    epochs: int | None,
    width: int | None,
    norm: int | None,
) -> tuple[Scorer, TrainingHistory, dict[str, Any]]:
    """The decoder over a trained network's states, and the configuration."""
    from kept.kge.gnn.bertmk import train_bertmk
    from kept.kge.gnn.recipes import train_network  # torch-geometric takes seconds to import

    if reciprocal or norm is not None:
        raise ConfigError(f"{name} reads inverse relations as it is: no --reciprocal, no --norm")
    recipe = NETWORK_RECIPES[name]
    config = replace(recipe.config, n_epochs=epochs or recipe.config.n_epochs)
    recipe = replace(recipe, config=config, width=width or recipe.width)
    with _progress(config.n_epochs) as on_epoch:
        given: dict[str, Any] = {
            "generator": draws, "validate": _validation(splits), "on_epoch": on_epoch
        }  # fmt: skip
        if isinstance(recipe, BERTMKRecipe):
            scorer, history = train_bertmk(splits, recipe, **given)
        else:
            scorer, history = train_network(splits, recipe, **given)
    return scorer, history, {"config": asdict(config), "network": recipe.as_json()}


def _validation(splits: Splits) -> Callable[[HasScores], float]:
    """MRR over the triples that choose an epoch."""
    return _mrr(splits, _chosen_by(splits))


def _mrr(splits: Splits, triples: NDArray[np.integer]) -> Callable[[HasScores], float]:
    known = filter_of(splits)

    def validate(current: HasScores) -> float:
        return rank(current, triples, filter=known, ties="realistic",
                    directions=("head", "tail"), candidates="all").mrr  # fmt: skip

    return validate


@contextmanager
def _progress(n_epochs: int) -> Iterator[Callable[[int, float], None]]:
    with Progress(console=TerminalConsole(stderr=True)) as progress:
        task = progress.add_task("training", total=n_epochs)

        def on_epoch(epoch: int, loss: float) -> None:
            progress.update(task, completed=epoch, description=f"loss {loss:.3f}")

        yield on_epoch


def _chosen_by(splits: Splits) -> NDArray[np.integer]:
    """The validation triples that choose an epoch: those of what training sees, as in evaluation.

    Ranks of vectors that were never trained are noise; without a seen triple there are no others.
    """
    is_seen = splits.seen.strata(splits.valid) == STRATA[0]
    return splits.valid[is_seen] if is_seen.any() else splits.valid
