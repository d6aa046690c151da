"""Key tables: renaming an original state dict into ours and back, strictly.

A table is data: ordered rules `(theirs, ours)`, where a name ending in a dot renames everything
below it. Tied pairs `(first, second)` are names that the original stores twice; both copies must be
equal, and the second is made again on the way back.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from kept.errors import CheckpointError

Rules = tuple[tuple[str, str], ...]


def to_ours(state: Mapping[str, Tensor], rules: Rules, tied: Rules = ()) -> dict[str, Tensor]:
    """Rename an original state dict; raises `CheckpointError` on an unknown name or untied pair."""
    copies = {second for _, second in tied}
    for first, second in tied:
        if first in state and second in state and not torch.equal(state[first], state[second]):
            raise CheckpointError(f"{second} should equal {first}: the original ties them")
    return rename({k: v for k, v in state.items() if k not in copies}, rules)


def to_original(state: Mapping[str, Tensor], rules: Rules, tied: Rules = ()) -> dict[str, Tensor]:
    """The inverse of `to_ours`."""
    named = rename(state, tuple((ours, theirs) for theirs, ours in rules))
    return named | {second: named[first] for first, second in tied if first in named}


def rename(state: Mapping[str, Tensor], rules: Rules) -> dict[str, Tensor]:
    renamed, unknown = {}, []
    for name, value in state.items():
        for old, new in rules:
            if name == old or (old.endswith(".") and name.startswith(old)):
                renamed[new + name[len(old) :]] = value
                break
        else:
            unknown.append(name)
    if unknown:
        raise CheckpointError(f"weights that the key table does not know: {sorted(unknown)}")
    return renamed


def load_strictly(model: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load renamed weights; raises `CheckpointError` naming every missing or unexpected one."""
    own = model.state_dict()
    missing, unexpected = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or unexpected:
        raise CheckpointError(
            f"the checkpoint does not fit {type(model).__name__}: missing {missing}, "
            f"unexpected {unexpected}"
        )
    shapes = [
        f"{name}: {tuple(value.shape)} instead of {tuple(own[name].shape)}"
        for name, value in state.items()
        if value.shape != own[name].shape
    ]
    if shapes:
        raise CheckpointError(f"weights of another shape: {'; '.join(shapes)}")
    model.load_state_dict(dict(state))


def read_pickle(path: str | Path) -> Any:
    """The contents of a torch file, tensors and plain containers only.

    Nothing but `weights_only=True` is ever used: raises `CheckpointError` for a file that asks for
    more, since such a pickle could run any code.
    """
    try:
        with warnings.catch_warnings():  # of an unusual pickle protocol; an error names the cause
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds more than tensors and could run code when read; it was not: {error}"
        ) from error
    except (OSError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a torch file: {error}") from error
