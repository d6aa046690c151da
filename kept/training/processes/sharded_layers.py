"""Weights of a model's layers shared out over processes: torch's FSDP2 (`fully_shard`).

For hosts and decoders that do not fit one device: a process holds its part of each layer, and has
the whole of one layer at a time while it computes (Zhao et al. 2023, "PyTorch FSDP", VLDB; the
module-wise form of torch 2.6 on). Tables with sparse gradients stay as they are
(`Processes.gather_rows`, `ShardedTable`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.export import register_dataclass

from kept.outputs import KnowledgeOutput
from kept.training.processes.together import Processes


def share_layers(
    model: nn.Module, together: Processes, device: torch.device, *, whole: Iterable[nn.Parameter]
) -> None:
    """Share the weights of `model` out, in place, all but those of `whole`; on `device` from here.

    `model` is the same in all processes; make its optimisers after this. Each entry of a list of
    layers (`nn.ModuleList`) is a unit, what is left is another. A method that computes inside its
    host's layers (`KnowledgeEncoder.enters_layers`) is one unit: a process has the whole for as
    long as a step computes, and its part of gradients and moments. `backward` averages gradients
    over the processes.
    """
    _hooks_reach_outputs()
    mesh = init_device_mesh(device.type, (together.n,))
    in_one = getattr(getattr(model, "encoder", model), "enters_layers", False)
    for layer in () if in_one else _layers(model):
        fully_shard(layer, mesh=mesh)
    ignored: Any = set(whole)
    fully_shard(model, mesh=mesh, ignored_params=ignored)


def reshard(model: nn.Module) -> None:
    """Let go of weights that a forward pass without a backward pass has left whole."""
    if isinstance(model, FSDPModule):
        model.reshard()


def gather_table(value: Tensor) -> Tensor:
    """A weight, moment or norm of all processes, which all call this; others as they are."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def local_rows(whole: Tensor, tensor: Tensor) -> Tensor:
    """Of a tensor that is whole, the part that this process has of `tensor`, which is of its shape;
    others as they are."""
    if not isinstance(tensor, DTensor) or whole.shape != tensor.shape:
        return whole
    there = whole.to(tensor.device)
    return distribute_tensor(there, tensor.device_mesh, tensor.placements, src_data_rank=None)


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The innermost entries of lists of layers, each once."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for each in lists:
        for layer in each:
            if not any(isinstance(inner, nn.ModuleList) for inner in layer.modules()):
                yield layer


@cache
def _hooks_reach_outputs() -> None:
    """Let torch find the tensors in what models return: it waits for their gradients.

    Some are views of others (`pooled_state`), of which it warns: nothing changes them in place.
    """
    register_dataclass(KnowledgeOutput)
    warnings.filterwarnings("ignore", r"FSDP2-wrapped module .* returned a view tensor")
