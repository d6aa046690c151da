"""Golden files of other sizes than the committed ones: reading, writing, and random weights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

COMMITTED = Path(__file__).parents[2] / "golden"
LAYER = re.compile(r"\b(?:layers?|transformer)\.(\d+)\.")


def load(folder: Path, name: str) -> dict[str, Tensor]:
    return load_file(folder / f"{name}.safetensors")


def store(tensors: Mapping[str, Tensor], folder: Path, name: str) -> None:
    """Scalars, views and gradients too."""
    plain = {key: value.detach().contiguous().clone() for key, value in tensors.items()}
    save_file(plain, folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def write(value: Any, folder: Path, name: str) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def one_more(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch whose first row comes once more, at its end."""
    return {name: torch.cat([value, value[:1]]) for name, value in tensors.items()}


def weights(
    state: Mapping[str, Tensor],
    sizes: Mapping[int, int],
    *,
    n_layers: int,
    named: Mapping[str, Mapping[int, int]] | None = None,
    tied: Iterable[tuple[str, str]] = (),
) -> dict[str, Tensor]:
    """Random weights under the names of `state`, without the layers from `n_layers` on.

    `sizes` says what becomes of each size, `named` where a part of the name must decide; whole
    numbers are kept as they are. `tied`: pairs of names with one tensor.
    """
    draws, result = torch.Generator().manual_seed(len(state)), {}
    for name, old in state.items():
        number = LAYER.search(name)
        if number is not None and int(number[1]) >= n_layers:
            continue
        known_sizes = dict(sizes)
        for pattern, changes in (named or {}).items():
            known_sizes |= changes if pattern in name else {}
        shape = [known_sizes.get(size, size) for size in old.shape]
        value = torch.randn(shape, generator=draws, dtype=torch.float64) * 0.1
        is_scale = re.search(r"(norm|gamma).*(weight|gamma)$", name, re.IGNORECASE)
        value = 1 + value if is_scale and len(shape) == 1 else value
        result[name] = value.to(old.dtype) if old.is_floating_point() else old.clone()
    for first, second in tied:
        result[second] = result[first]
    return result
