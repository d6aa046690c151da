"""Checkpoints in safetensors and JSON, written beside and renamed, with a checksum per file.

    RUN/checkpoints/step-00000100/
        model.safetensors, config.json, ...   what `model.save_pretrained` wrote
        optimiser.safetensors                 tensors named `optimiser/parameter/key`
        state.json                            step, seconds, binding configuration, scalars
        checksums.json                        the seal of every file above and of itself

When a run is finished, `leave_finished` takes weights and optimiser away that lie in the run's
folder, or are needed no more: `state.json` stays, with the names of the weights.

A folder with that name was complete when it got the name. Anything else (a cut file, a flipped
byte) fails its checksum. Only listed files are read; nothing is ever unpickled.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from kept.errors import CheckpointError
from kept.model_files import MODEL, readable, require_finite, seal_model, verify_model
from kg_loaders.disk.seals import files_below, open_sealed, seal
from kg_loaders.disk.writing import remove, whole_files, whole_folder

FORMAT_VERSION = 1
LEFTOVERS = ".step-"
"""What the names of files begin with that a killed process may leave beside checkpoints."""
STATE, OPTIMISER, CHECKSUMS = "state.json", "optimiser.safetensors", MODEL.manifest


_Model = TypeVar("_Model", bound=BaseModel)


class TrainState(BaseModel):
    """The contents of `state.json`: all of a checkpoint but tensors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    step: int
    seconds: float
    binding: dict[str, Any]
    data_fingerprint: str
    environment: dict[str, str]
    scalars: dict[str, float] = {}
    published: tuple[str, ...] = ()
    """Files of the run's folder that hold the weights of a finished run; () where it is not."""


@runtime_checkable
class PartialCheckpoint(Protocol):
    """A model of which checkpoints hold a part: the rest is frozen, and there before it trains."""

    def own_tensors(self) -> dict[str, Tensor]:
        """What is held, by names of `state_dict`; the tensors themselves, not copies."""
        ...


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model that a checkpoint holds, by name."""
    if isinstance(model, PartialCheckpoint):
        return model.own_tensors()
    return model.state_dict(keep_vars=True)


Part = Callable[[Tensor, Tensor], Tensor]
"""Of a parameter and a value of it or of its state: another, whole or a part of the value."""


@dataclass(frozen=True)
class GatheredState:
    """The tensors of a model and its optimisers where each process holds parts of them."""

    weights: dict[str, Tensor]
    states: dict[str, Tensor]
    scalars: dict[str, float]


def save_checkpoint(
    folder: Path,
    *,
    model: nn.Module,
    optimisers: Mapping[str, Optimizer],
    state: TrainState,
    keep: int,
    whole: GatheredState | None = None,
) -> Path:
    """Write `folder/step-N` and drop all but the last `keep`.

    `whole`: what is written in place of the tensors that `model` and `optimisers` hold.
    When anything fails, a full disk too, the older checkpoints are untouched and
    `CheckpointError` says what failed.
    """
    target = folder / f"step-{state.step:08d}"
    try:
        with whole_folder(target, kind="checkpoint", is_kind=_is_checkpoint, force=True) as part:
            _write(part, model, optimisers, state, whole)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{target} could not be written ({_reason(error)}); older checkpoints are untouched: "
            "make room, then go on with --resume"
        ) from error
    for old in list_checkpoints(folder)[:-keep]:
        _discard(old)
    return target


def publish_model(
    run_dir: Path, model: nn.Module, weights: Mapping[str, Tensor] | None = None
) -> None:
    """Write the model's own files into `run_dir`, each replaced at once; `weights`: as
    `GatheredState`."""
    try:
        with whole_files(run_dir) as part:
            _save_model(part, model, weights)
        seal_model(run_dir)  # with what lies there beside the model: tokenizer, settings
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"the model could not be written to {run_dir} ({_reason(error)}); its checkpoints are "
            "untouched: make room, then go on with --resume"
        ) from error


def _reason(error: Exception) -> str:
    """What the system said, without the remedy of whoever passed it on."""
    return str(error).partition(";")[0]


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process had half written or half removed."""
    for leftover in sorted(folder.glob(f"{LEFTOVERS}*")):
        remove(leftover)


def list_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints by step, oldest first, unverified; half-written ones are not among them."""
    return sorted(p for p in folder.glob("step-*") if p.is_dir() and _is_checkpoint(p))


def verify_checkpoint(path: Path) -> dict[str, Path]:
    """The checkpoint's files, after every size and checksum has matched."""
    if not path.is_dir():
        raise CheckpointError(f"{path} does not exist")
    listed = open_sealed(path, MODEL, verify=True).files
    names = (STATE,) if OPTIMISER not in listed and _published(path) else (STATE, OPTIMISER)
    for name in names:
        if name not in listed:
            raise CheckpointError(f"{path} lists no {name}: it is not a training checkpoint")
    return {name: path / name for name in listed}


def _published(path: Path) -> tuple[Path, ...]:
    """The files beside `checkpoints/` that hold the weights of a finished run; () if it is not."""
    if not (path / STATE).is_file():
        return ()
    return tuple(path.parents[1] / name for name in _read_json(path / STATE, TrainState).published)


def leave_finished(run_dir: Path, *, resumable: bool) -> None:
    """Leave one copy of the weights in the folder of a finished run, and its last checkpoint alone.

    Of that only `state.json` stays, so that the run is known to be finished. A run that may be
    prolonged (`resumable`) keeps its optimiser, and its weights are the published file itself where
    that is the same and the disk has hard links. A kill in between costs room, no weights.
    """
    saved = list_checkpoints(run_dir / "checkpoints")
    if not saved or _published(saved[-1]):
        return
    for old in saved[:-1]:
        _discard(old)
    last = saved[-1]
    weights = [path.name for path in sorted(last.glob("*.safetensors")) if path.name != OPTIMISER]
    if not all((run_dir / name).is_file() for name in weights):
        return
    if resumable:
        for name in weights:
            _share(run_dir / name, last / name)
        return
    state = _read_json(last / STATE, TrainState)
    lean = state.model_copy(update={"scalars": {}, "published": tuple(weights)})
    with whole_folder(last, kind="checkpoint", is_kind=_is_checkpoint, force=True) as part:
        (part / STATE).write_text(lean.model_dump_json(), encoding="utf-8")
        seal(part, MODEL, {}, [STATE])


def _share(published: Path, held: Path) -> None:
    """Make `held` another name of `published`, if their bytes are the same."""
    if held.stat().st_ino == published.stat().st_ino or not filecmp.cmp(published, held, False):
        return
    link = held.with_name(f".{held.name}.link")
    with suppress(OSError):  # a disk without hard links
        link.unlink(missing_ok=True)
        os.link(published, link)
        link.replace(held)


def load_checkpoint(
    path: Path,
    *,
    model: nn.Module,
    optimisers: Mapping[str, Optimizer],
    check: Callable[[TrainState], None] | None = None,
    part: Part = lambda _held, whole: whole,
) -> TrainState:
    """Verify `path`, then put its weights and optimiser states into `model` and `optimisers`.

    `check` gets the state before anything is changed and may raise. `own(parameter, value)` is what
    this process holds of a value.
    """
    files = verify_checkpoint(path)
    state = _read_json(files[STATE], TrainState)
    if check is not None:
        check(state)
    if state.published:
        verify_model(path.parents[1])
        _load_weights(path, list(_published(path)), model, part)
        return state
    weights = [
        f for name, f in files.items() if name.endswith(".safetensors") and name != OPTIMISER
    ]
    _load_weights(path, weights, model, part)
    _load_optimisers(path, files[OPTIMISER], state, model, optimisers, part)
    return state


# ---- writing -----------------------------------------------------------------------------------
def _is_checkpoint(folder: Path) -> bool:
    return folder.name[5:].isdigit()


def _write(
    folder: Path,
    model: nn.Module,
    optimisers: Mapping[str, Optimizer],
    state: TrainState,
    whole: GatheredState | None,
) -> None:
    _save_model(folder, model, None if whole is None else whole.weights)
    if whole is None:
        tensors, scalars = states_of(model, optimisers)
    else:
        tensors, scalars = whole.states, whole.scalars
    save_file(tensors, folder / OPTIMISER)
    full = state.model_copy(update={"scalars": scalars})
    (folder / STATE).write_text(full.model_dump_json(), encoding="utf-8")
    files = [name for name in files_below(folder) if name != CHECKSUMS]
    seal(folder, MODEL, {}, files)


def _save_model(folder: Path, model: nn.Module, weights: Mapping[str, Tensor] | None) -> None:
    options = {} if weights is None else {"state_dict": dict(weights)}
    model.save_pretrained(folder, **options)  # type: ignore[operator]  # every encoder has it; nn.Module says Tensor


def states_of(
    model: nn.Module,
    optimisers: Mapping[str, Optimizer],
    whole: Part = lambda _parameter, value: value,
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Tensors and numbers of the states of `optimisers`, by `optimiser/parameter/key`.

    `whole(parameter, value)` is what stands for a tensor.
    """
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, float] = {}
    for kind, optimiser in optimisers.items():
        for name, parameter in _parameters(model, optimiser).items():
            for key, value in optimiser.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    value = whole(parameter, value).detach()
                    tensors[f"{kind}/{name}/{key}"] = value.cpu().contiguous()
                else:
                    scalars[f"{kind}/{name}/{key}"] = value
    return tensors, scalars


def _parameters(model: nn.Module, optimiser: Optimizer) -> dict[str, nn.Parameter]:
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)]: p for group in optimiser.param_groups for p in group["params"]}


def _discard(folder: Path) -> None:
    """Remove a folder so that no moment shows a half-removed one under its own name."""
    if not folder.exists():
        return
    doomed = folder.with_name(f".{folder.name.lstrip('.')}.discarded")
    shutil.rmtree(doomed, ignore_errors=True)
    folder.rename(doomed)
    shutil.rmtree(doomed)


# ---- reading -----------------------------------------------------------------------------------
def _read_json(path: Path, kind: type[_Model]) -> _Model:
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"{path} is missing or not what was written: {error}") from error


def _load_weights(path: Path, files: list[Path], model: nn.Module, part: Part) -> None:
    """Copy in place; names tied to one tensor need only one of them in the files."""
    targets = tensors_of(model)
    loaded: set[str] = set()
    for file in files:
        with readable(file), safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  # not a mapping
                if name not in targets:
                    raise CheckpointError(f"{path}: the model has no tensor {name!r}")
                target = targets[name]
                _copy(path, name, part(target, tensors.get_tensor(name)), target)
                loaded.add(name)
    reached = {_storage_of(targets[name]) for name in loaded}
    missing = [name for name, value in targets.items() if _storage_of(value) not in reached]
    if missing:
        raise CheckpointError(f"{path} lacks {len(missing)} tensors of the model: {missing[:5]}")
    require_finite(model, path)


def _storage_of(value: Tensor) -> int:
    """Where a tensor lies; a part of one, or one without numbers, lies nowhere else."""
    return value.data_ptr() or id(value)


def _copy(path: Path, name: str, source: Tensor, target: Tensor) -> None:
    if source.shape != target.shape or source.dtype != target.dtype:
        raise CheckpointError(
            f"{path}: {name} is {source.dtype} {tuple(source.shape)}, the model wants "
            f"{target.dtype} {tuple(target.shape)}"
        )
    with torch.no_grad():
        target.copy_(source)


def _load_optimisers(
    path: Path,
    file: Path,
    state: TrainState,
    model: nn.Module,
    optimisers: Mapping[str, Optimizer],
    slice_part: Part,
) -> None:
    flat: dict[str, Any] = {**load_file(file), **state.scalars}
    for kind, optimiser in optimisers.items():
        parameters = _parameters(model, optimiser)
        numbers = {name: i for i, name in enumerate(parameters)}
        entries: dict[int, dict[str, Any]] = {}
        for full in [name for name in flat if name.startswith(f"{kind}/")]:
            _, name, key = full.split("/")
            if name not in numbers:
                raise CheckpointError(f"{path}: optimiser {kind!r} has no parameter {name!r}")
            value = flat.pop(full)
            if isinstance(value, Tensor):
                part = slice_part(parameters[name], value)
                value = value if part is value else part.clone()  # of a file that is mapped
            entries.setdefault(numbers[name], {})[key] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": entries})
    if flat:
        raise CheckpointError(f"{path} holds states of no optimiser here: {sorted(flat)[:5]}")
