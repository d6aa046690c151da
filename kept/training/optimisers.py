"""Optimisers: AdamW for dense parameters, a lazy row optimiser for sparse ones, a rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer

from kept.training.adaptation import rate_scales
from kept.training.averaging import HISTORY, new_parameter_history
from kept.training.config import TrainConfig
from kept.training.row_adagrad import RowAdagrad
from kept.training.row_adam import RowAdam

DENSE, ROWS = "dense", "rows"
ROW_OPTIMISERS: dict[str, Callable[..., Optimizer]] = {"adam": RowAdam, "adagrad": RowAdagrad}


def sparse_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Trainable tables whose gradients are sparse: embeddings made with `sparse=True`."""
    sparse = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.sparse
    }
    return [p for p in model.parameters() if p.requires_grad and id(p) in sparse]


def dense_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Every other trainable parameter, in the model's order."""
    rows = {id(table) for table in sparse_parameters(model)}
    return [p for p in model.parameters() if p.requires_grad and id(p) not in rows]


def make_optimisers(model: nn.Module, config: TrainConfig) -> dict[str, Optimizer]:
    """`{"dense": AdamW, "rows": RowAdam}`, whichever the model has parameters for; or RowAdagrad;
    with `averaging` `PastParameters` as `past`.

    Vectors and scalars (biases, LayerNorm) are not decayed, nor are sparse tables. A dense group's
    `scale` is its share of the rate (`rate_scales`).
    """
    dense, tables = dense_parameters(model), sparse_parameters(model)
    optimisers: dict[str, Optimizer] = {}
    if dense:
        scales = rate_scales(model, config)
        split: dict[tuple[bool, float], list[nn.Parameter]] = {}
        for p in sorted(dense, key=lambda p: p.ndim <= 1):
            split.setdefault((p.ndim > 1, scales.get(id(p), 1.0)), []).append(p)
        groups = [
            {"params": some, "weight_decay": config.weight_decay * decayed, "scale": scale}
            for (decayed, scale), some in split.items()
        ]
        optimisers[DENSE] = AdamW(groups, lr=config.learning_rate, fused=True)
    if tables:
        optimisers[ROWS] = ROW_OPTIMISERS[config.row_optimiser](
            tables, lr=config.entity_learning_rate
        )
    if config.averaging is not None and dense:  # the last: it remembers what the others did
        optimisers[HISTORY] = new_parameter_history(dense, config.averaging)
    return optimisers


def set_rates(optimisers: dict[str, Optimizer], config: TrainConfig, factor: float) -> None:
    """Scale the base rates by `factor`; there is no scheduler state to save."""
    base = {DENSE: config.learning_rate, ROWS: config.entity_learning_rate}
    for name, group in _groups(optimisers):
        if name in base:
            group["lr"] = base[name] * factor * group.get("scale", 1.0)


def rate_factor(step: int, n_steps: int, config: TrainConfig) -> float:
    """Linear warm-up, then linear decay to zero at `n_steps`, half a cosine, or constant.

    >>> config = TrainConfig(steps=10, batch_size=1, warmup_steps=2)
    >>> [rate_factor(step, 10, config) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.125]
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    n_falling = max(1, n_steps - config.warmup_steps)
    if config.schedule == "cosine":
        wave = (1 + math.cos(math.pi * (step - config.warmup_steps) / n_falling)) / 2
        return config.last_share + (1 - config.last_share) * wave
    return (n_steps - step) / n_falling


def _groups(optimisers: dict[str, Optimizer]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, optimiser in optimisers.items():
        for group in optimiser.param_groups:
            yield name, group
