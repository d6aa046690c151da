"""Loading weights: everything fits, or the load fails."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kept.errors import CheckpointError


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
