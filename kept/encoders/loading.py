"""Loading weights: everything fits, or the load fails."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kept.errors import CheckpointError


def load_strictly(model: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load renamed weights; raises `CheckpointError` naming every missing or unexpected one."""
    model_state = model.state_dict()
    missing, unexpected = (
        sorted(model_state.keys() - state.keys()),
        sorted(state.keys() - model_state.keys()),
    )
    if missing or unexpected:
        raise CheckpointError(
            f"the checkpoint does not fit {type(model).__name__}: missing {missing}, "
            f"unexpected {unexpected}"
        )
    shapes = [
        f"{name}: {tuple(value.shape)} instead of {tuple(model_state[name].shape)}"
        for name, value in state.items()
        if value.shape != model_state[name].shape
    ]
    if shapes:
        raise CheckpointError(f"weights of another shape: {'; '.join(shapes)}")
    model.load_state_dict(dict(state))
