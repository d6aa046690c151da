"""Weights of a model's layers shared out over processes: torch's FSDP2 (`fully_shard`).

For hosts and decoders that do not fit one device: a process holds its part of each layer, and has
the whole of one layer at a time while it computes (Zhao et al. 2023, "PyTorch FSDP", VLDB; the
module-wise form of torch 2.6 on). Tables with sparse gradients stay as they are
(`Processes.gather_rows`, `ShardedTable`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from kept.training.optimisers import sparse_parameters
from kept.training.processes.together import Losses, Processes


def share_layers(model: nn.Module, together: Processes, *, by_layer: bool = True) -> Losses:
    """A module that returns the losses of `model`, whose weights are shared out from here on.

    `model` is the same in all processes and changed in place; make its optimisers after this. Each
    entry of a list of layers (`nn.ModuleList`) is a unit, what is left is another; without
    `by_layer` all is one, as it must be where a method computes inside its host's layers (ERNIE):
    then a process has the whole for as long as a step computes, and its part of gradients and
    moments. `backward` averages gradients over the processes. Alone nothing is shared out.
    """
    losses = Losses(model)
    if together.n == 1:
        return losses
    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (together.n,))
    tables: Any = set(sparse_parameters(model))
    for layer in _layers(model) if by_layer else ():
        fully_shard(layer, mesh=mesh)
    fully_shard(losses, mesh=mesh, ignored_params=tables)
    return losses


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The innermost entries of lists of layers, each once."""
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    for each in lists:
        for layer in each:
            if not any(isinstance(inner, nn.ModuleList) for inner in layer.modules()):
                yield layer


def whole_state(model: nn.Module) -> dict[str, Any]:
    """The state dict of `model` as it is in one process; all processes call this.

    The first process has it, on the CPU; the others have an empty one.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    found: dict[str, Any] = get_model_state_dict(model, options=options)
    return found


def load_whole_state(model: nn.Module, state: dict[str, Any]) -> None:
    """Give `model`, shared out or not, the weights of `whole_state`, which all processes have."""
    set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True))
