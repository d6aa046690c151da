"""A completer on disk, in the form of every trained scorer: a sealed folder with `model.json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from kept.errors import CheckpointError
from kept.kgc.completers.base import COMPLETERS, Completer
from kept.kgc.completers.seen import TrainedOn
from kept.kgc.kge.trained import DESCRIPTION, WEIGHTS, read_description, write_described
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
    return read_description(folder)["scorer"] in COMPLETERS


def open_completer(folder: Path) -> LoadedCompleter:
    """Read a folder that `save_completer` wrote; CheckpointError: damaged, or no completer."""
    described = read_description(folder)
    name = described["scorer"]
    if name not in COMPLETERS:
        raise CheckpointError(
            f"{folder / DESCRIPTION} says {name!r}, which has a row per entity of its graph"
        )
    trained_on = None
    with readable(folder / WEIGHTS):
        completer = _load_completer(folder, described, load((folder / WEIGHTS).read_bytes()))
    if (folder / TRAINED_ON).is_file():
        with readable(folder / TRAINED_ON):
            trained_on = TrainedOn.from_tensors(load((folder / TRAINED_ON).read_bytes()))
    return LoadedCompleter(completer, trained_on, described)


def _load_completer(
    folder: Path, described: dict[str, Any], weights: dict[str, Tensor]
) -> Completer:
    """The completer of that name, whose module is imported now."""
    name, weights_path = described["scorer"], folder / WEIGHTS
    if name == "ultra":
        from kept.kgc.completers.ultra import ultra_of

        return ultra_of(weights, weights_path)
    if name == "nbfnet":
        from kept.kgc.completers.nbfnet import open_nbfnet

        return open_nbfnet(weights_path, described, weights)
    if name == "mix":
        from kept.kgc.completers.mix import open_mix

        return open_mix(folder, described, _part)
    opened: Completer = _text_reader(name)(folder, described, weights)
    return opened


def _text_reader(name: str) -> Callable[[Path, dict[str, Any], dict[str, Tensor]], Any]:
    """What opens a folder of that scorer."""
    if name == "dkrl":
        from kept.kgc.completers.texts.dkrl import open_dkrl

        return open_dkrl
    if name == "kepler":
        from kept.kgc.completers.texts.kepler import open_kepler

        return open_kepler
    if name == "colake":
        from kept.kgc.completers.texts.colake import open_colake

        return open_colake
    from kept.kgc.completers.texts.simkgc import open_simkgc

    return open_simkgc


def _part(folder: Path) -> Completer | None:
    """A scorer of a mix; None: a table of vectors."""
    return open_completer(folder).completer if is_completer(folder) else None
