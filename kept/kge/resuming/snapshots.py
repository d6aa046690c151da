"""The state of a training on disk: one sealed folder, whole or not at all, nothing unpickled.

OUTPUT.training/state/
    state.safetensors     every tensor, named by its place in the state
    training.json         what the training is of, the state without tensors, the seal
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from kept.errors import CheckpointError
from kept.model_files import readable
from kg_loaders.disk.seals import FolderFormat, Sealed, is_of, open_sealed, seal
from kg_loaders.disk.writing import remove_at_once, whole_folder

TENSORS = "state.safetensors"
STATE = FolderFormat(
    kind="kept state of a scorer's training",
    version=1,
    what="a half-done training",
    remedy="remove the folder and train again",
    make="kept kgc train writes one",
    mark=TENSORS,
    error=CheckpointError,
    manifest="training.json",
)


class Snapshots:
    """The last state of one training in `folder`, written at most every `every_seconds`.

    `about` is all that decides what a step does, as JSON values: a folder with another one is of
    another training.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], *, every_seconds: float) -> None:
        self.folder, self.every_seconds = folder, every_seconds
        self.about: dict[str, Any] = json.loads(json.dumps(about))
        self._written = time.monotonic()

    @property
    def state_folder(self) -> Path:
        """The folder of the state."""
        return self.folder / "state"

    @property
    def is_there(self) -> bool:
        """Whether there is a state to go on from, whoever wrote it."""
        return self.state_folder.is_dir()

    @property
    def is_of_another(self) -> bool:
        """Whether there is a state, of another training."""
        return self.is_there and bool(self._differences(open_sealed(self.state_folder, STATE)))

    def read(self) -> dict[str, Any] | None:
        """The last state, None where there is none; CheckpointError: damaged, or of another one."""
        if not self.is_there:
            return None
        sealed = open_sealed(self.state_folder, STATE)
        sealed.require_files([TENSORS])
        if differences := self._differences(sealed):
            raise CheckpointError(
                f"{self.folder} has an unfinished training with other settings "
                f"({'; '.join(differences)}); continue it with its own options, or discard "
                f"it with --force"
            )
        with readable(self.state_folder / TENSORS):
            tensors = load((self.state_folder / TENSORS).read_bytes())
        state: dict[str, Any] = _insert_tensors(sealed.values["state"], tensors)
        return state

    def _differences(self, sealed: Sealed) -> list[str]:
        old: dict[str, Any] = dict(sealed.values["about"])
        return [
            f"{name}: {old.get(name)!r}, now {self.about.get(name)!r}"
            for name in dict.fromkeys([*old, *self.about])
            if old.get(name) != self.about.get(name)
        ]

    @property
    def is_due(self) -> bool:
        """Whether the last state is old enough."""
        return time.monotonic() - self._written >= self.every_seconds

    def write(self, state: Mapping[str, Any]) -> None:
        """Put `state` (tensors, JSON values, dictionaries and lists of them) in the last's place.

        Raises `WriteError`; the last state is then untouched.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors: dict[str, Tensor] = {}
        values = _split_tensors(state, "", tensors)
        with whole_folder(
            self.state_folder, kind="state of a training", is_kind=_is_state, force=True
        ) as (part):
            (part / TENSORS).write_bytes(save(tensors))
            seal(part, STATE, {"about": self.about, "state": values}, [TENSORS])
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the folder: the training has ended and its model stands."""
        if self.folder.is_dir():
            remove_at_once(self.folder)


def remove_unfinished(folder: Path) -> None:
    """Remove what a training left in `folder`; a folder of anything else is refused."""
    if not folder.is_dir():
        return
    if not _is_state(folder / "state"):
        raise CheckpointError(f"{folder} is not an unfinished training; move it out of the way")
    remove_at_once(folder)


def _is_state(folder: Path) -> bool:
    return is_of(folder, STATE)


def _split_tensors(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """JSON for a state: tensors go to `tensors` under the name of their place."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().clone().contiguous()
        return {"tensor": name}
    if isinstance(value, Mapping):
        pairs = [
            [key, _split_tensors(inner, f"{name}/{key}", tensors)] for key, inner in value.items()
        ]
        return {"pairs": pairs}  # keys may be numbers
    if isinstance(value, (list, tuple)):
        return [_split_tensors(inner, f"{name}/{i}", tensors) for i, inner in enumerate(value)]
    return value


def _insert_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, Mapping):
        if "tensor" in value:
            return tensors[value["tensor"]]
        return {key: _insert_tensors(inner, tensors) for key, inner in value["pairs"]}
    return (
        [_insert_tensors(inner, tensors) for inner in value] if isinstance(value, list) else value
    )
