"""Key tables: renaming an original state dict into ours and back, strictly.

A table is data: ordered rules `(theirs, ours)`, where a name ending in a dot renames everything
below it. Tied pairs `(first, second)` are names that the original stores twice; both copies must be
equal, and the second is added again by the inverse. A packed entry `(whole, parts)` says that
wherever an original name ends in `whole`, its tensor holds those of the names that end in `parts`
instead, equally long, one after the other along the first axis.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from kept.errors import CheckpointError

Rules = tuple[tuple[str, str], ...]
Packed = tuple[tuple[str, tuple[str, ...]], ...]


def to_ours(
    state: Mapping[str, Tensor], rules: Rules, tied: Rules = (), packed: Packed = ()
) -> dict[str, Tensor]:
    """Rename an original state dict; raises `CheckpointError` on an unknown name or untied pair.

    `packed` is unpacked first: rules apply to the names of the parts.
    """
    copies = {second for _, second in tied}
    for first, second in tied:
        if first in state and second in state and not torch.equal(state[first], state[second]):
            raise CheckpointError(f"{second} should equal {first}: the original ties them")
    return rename(unpack({k: v for k, v in state.items() if k not in copies}, packed), rules)


def to_original(
    state: Mapping[str, Tensor], rules: Rules, tied: Rules = (), packed: Packed = ()
) -> dict[str, Tensor]:
    """The inverse of `to_ours`."""
    named = pack(rename(state, tuple((ours, theirs) for theirs, ours in rules)), packed)
    return named | {second: named[first] for first, second in tied if first in named}


def unpack(state: Mapping[str, Tensor], packed: Packed) -> dict[str, Tensor]:
    """Packed tensors as their parts; raises `CheckpointError` where they cannot be of one size."""
    parted: dict[str, Tensor] = {}
    for name, value in state.items():
        whole, parts = next((entry for entry in packed if name.endswith(entry[0])), ("", ()))
        if not parts:
            parted[name] = value
            continue
        if value.ndim == 0 or len(value) % len(parts):
            raise CheckpointError(
                f"{name} has shape {tuple(value.shape)}, which is not {len(parts)} equal parts"
            )
        stem = name.removesuffix(whole)
        chunks = value.chunk(len(parts))
        parted |= {stem + part: chunk for part, chunk in zip(parts, chunks, strict=True)}
    return parted


def pack(state: Mapping[str, Tensor], packed: Packed) -> dict[str, Tensor]:
    """The inverse of `unpack`; raises `CheckpointError` where a part is missing."""
    joined = dict(state)
    for whole, parts in packed:
        stems = [name.removesuffix(parts[0]) for name in joined if name.endswith(parts[0])]
        for stem in stems:
            missing = [stem + part for part in parts if stem + part not in joined]
            if missing:
                raise CheckpointError(f"{stem}{whole} cannot be joined without {missing}")
            joined[stem + whole] = torch.cat([joined.pop(stem + part) for part in parts])
    return joined


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


def n_numbered(state: Mapping[str, Tensor], prefix: str) -> int:
    """One more than the largest number right after `prefix` in a name: the number of layers."""
    numbers = (name.removeprefix(prefix).split(".")[0] for name in state if name.startswith(prefix))
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)


def read_state(path: str | Path) -> dict[str, Tensor]:
    """A file that holds one state dict; raises `CheckpointError` for anything else."""
    return as_state(read_pickle(path), str(path))


def as_state(value: Any, source: str) -> dict[str, Tensor]:
    """`value` as names to tensors; raises `CheckpointError` naming `source` if it is not."""
    if not isinstance(value, Mapping) or not all(isinstance(v, Tensor) for v in value.values()):
        raise CheckpointError(f"{source} does not hold a state dict (names to tensors)")
    return dict(value)


_NO_TORCH_FILE = (
    OSError, RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError,
    AssertionError, OverflowError, MemoryError, struct.error,
)  # fmt: skip
"""What torch raises for the bytes of another file: it takes them for commands of a pickle."""


def read_pickle(path: str | Path, *, allowed: Sequence[type] = ()) -> Any:
    """The contents of a torch file: tensors, plain containers and values of `allowed` classes only.

    Only `weights_only=True` is used: raises `CheckpointError` for a file that needs more, since
    such a pickle could run any code. `allowed` classes must be harmless to construct and fill.
    """
    try:
        with torch.serialization.safe_globals(list(allowed)), warnings.catch_warnings():
            # of an unusual pickle protocol; an error names the cause
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds more than tensors and could run code when read; it was not: {error}"
        ) from error
    except _NO_TORCH_FILE as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path} cannot be read as a torch file: {reason}") from error
