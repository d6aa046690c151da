"""Copies in host memory of what was moved to a GPU.

A program that reads a number from a GPU waits for everything that it gave the GPU to do. A batch is
made in host memory, so its numbers are known there: whoever checks or counts them reads the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_COPY = "_kept_on_host"


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """`tensor` on `device`, without waiting for the copy; what leaves host memory is remembered."""
    there = tensor.to(device, non_blocking=tensor.device.type == "cpu")
    if tensor.device.type == "cpu" and there is not tensor and not torch.compiler.is_compiling():
        _remember(there, tensor)
    return there


def on_host(tensor: Tensor) -> Tensor:
    """The same numbers in host memory: what was moved, or a copy, for which the program waits.

    >>> on_host(torch.tensor([3])).tolist()
    [3]
    """
    if tensor.device.type == "cpu":
        return tensor
    copy = getattr(tensor, _COPY, None)
    if copy is None:
        return tensor.cpu()
    if callable(copy):
        copy = copy()
        _remember(tensor, copy)
    known: Tensor = copy
    return known


def on_both(compute: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """`compute(*tensors)`, known in host memory too where all of `tensors` are."""
    result = compute(*tensors)
    if result.device.type != "cpu" and all(map(is_known, tensors)):
        _remember(result, lambda: compute(*map(on_host, tensors)))
    return result


def is_known(tensor: Tensor) -> bool:
    """Whether `on_host` returns without waiting."""
    return tensor.device.type == "cpu" or hasattr(tensor, _COPY)


def places(condition: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """The flat places where `condition(*tensors)`, a boolean, is True, on the device of `tensors`.

    >>> places(lambda labels: labels > 0, torch.tensor([[0, 2], [1, 0]])).tolist()
    [1, 2]
    """
    is_there = condition(*map(on_host, tensors))
    return moved(is_there.flatten().nonzero()[:, 0], tensors[0].device)


def at(values: Tensor, chosen: Tensor) -> Tensor:
    """`values [batch node ...]` at the flat `places` of their first two axes.

    >>> at(torch.tensor([[5, 6], [7, 8]]), torch.tensor([1, 2])).tolist()
    [6, 7]
    """
    return on_both(lambda all_, rows: all_.flatten(0, 1).index_select(0, rows), values, chosen)


def _remember(there: Tensor, copy: Any) -> None:
    setattr(there, _COPY, copy)
