"""A completer on disk, in the form of every trained scorer: a sealed folder with `model.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from kept.errors import CheckpointError, ConfigError
from kept.evaluation.ranking import Filter
from kept.kgc.completers.base import Completer
from kept.kgc.completers.mix import MixCompleter, MixPart, fit_mix, open_mix
from kept.kgc.completers.seen import TrainedOn
from kept.kge.kinds import SCORERS, ScorerKind, Trained, Training
from kept.kge.kinds import load as load_place
from kept.kge.options import MixOptions
from kept.kge.trained import DESCRIPTION, WEIGHTS, read_description, write_described
from kept.model_files import readable

TRAINED_ON = "trained_on.safetensors"


@dataclass(frozen=True, eq=False)
class LoadedCompleter:
    """A completer, what it was trained on (None: not recorded), and what `model.json` says."""

    completer: Completer
    trained_on: TrainedOn | None
    described: dict[str, Any]


def save_completer(
    folder: Path,
    completer: Completer,
    trained_on: TrainedOn | None,
    training: dict[str, Any],
    *,
    force: bool = False,
) -> None:
    """Write the folder, whole or not at all; `training` is kept as JSON."""

    def further_files(part: Path) -> list[str]:
        names = completer.save_extra_files(part)
        if trained_on is not None:
            (part / TRAINED_ON).write_bytes(save(trained_on.tensors()))
            names.append(TRAINED_ON)
        return names

    described = {**completer.described(), "training": training}
    write_described(folder, described, completer.weights(), extra_files=further_files, force=force)


def is_completer(folder: Path) -> bool:
    """Whether the scorer in `folder` is a completer; raises what `read_description` does."""
    return _kind_in(folder, read_description(folder)).answers_any_graph


def open_completer(folder: Path) -> LoadedCompleter:
    """Read a folder that `save_completer` wrote; CheckpointError: damaged, or no completer."""
    described = read_description(folder)
    kind = _kind_in(folder, described)
    if not kind.answers_any_graph:
        raise CheckpointError(
            f"{folder / DESCRIPTION} says {described['scorer']!r}, which has a row per entity of "
            "its graph"
        )
    trained_on = None
    with readable(folder / WEIGHTS):
        weights = load((folder / WEIGHTS).read_bytes())
        completer: Completer = load_place(kind.open)(folder, described, weights)
    if (folder / TRAINED_ON).is_file():
        with readable(folder / TRAINED_ON):
            trained_on = TrainedOn.from_tensors(load((folder / TRAINED_ON).read_bytes()))
    return LoadedCompleter(completer, trained_on, described)


def open_mixed(folder: Path, described: dict[str, Any], weights: dict[str, Tensor]) -> MixCompleter:
    """Return the mix in a folder, with its scorers."""
    return open_mix(folder, described, _part)


def train_mix(training: Training) -> Trained:
    """Fit the weights of trained scorers; nothing is trained, a mix that is cut is fitted anew."""
    options, splits = training.options, training.splits
    assert isinstance(options, MixOptions)
    if len(options.of) < 2:
        raise ConfigError(f"--scorer mix takes --of twice at least, {len(options.of)} given")
    parts = [MixPart(folder, _part(folder)) for folder in options.of]
    n = {"n_entities": splits.graph.n_entities, "n_relations": splits.graph.n_relations}
    known = Filter(splits.as_mapping(), **n)
    mixed = fit_mix(parts, splits, filter=known, seed=training.seed)
    settings = {"of": [str(folder) for folder in options.of]}
    return Trained(scorer=mixed, history=None, settings=settings)


def _part(folder: Path) -> Completer | None:
    """A scorer of a mix; None: a table of vectors."""
    return open_completer(folder).completer if is_completer(folder) else None


def _kind_in(folder: Path, described: dict[str, Any]) -> ScorerKind:
    """Return the line of the scorer in a folder; raises `CheckpointError` where there is none."""
    name = described["scorer"]
    if name not in SCORERS:
        raise CheckpointError(
            f"{folder / DESCRIPTION} says {name!r}, which is none of {', '.join(SCORERS)}; if it "
            "is a plugin's, install that package"
        )
    return SCORERS[name]
