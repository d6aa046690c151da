"""Epochs of shuffled batches: validated, stopped early, and resumed between any two batches.

Axis legend: batch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from kept.errors import ConfigError, KeptError
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.training_config import TrainingConfig

READ_AT_ONCE = 64
"""Losses that are read from a GPU together: each reading waits for it."""


@dataclass(frozen=True, eq=False)
class TrainingHistory:
    """The record of a run. To resume, pass `state` to `train` with a larger `n_epochs`."""

    losses: tuple[float, ...]
    validations: tuple[tuple[int, float], ...]
    best_epoch: int
    stopped_early: bool
    seconds: float
    state: dict[str, Any] = field(repr=False)


@dataclass
class Progress:
    """The mutable state of a run; its dictionary is what resuming needs.

    `n_batches` of the epoch at hand are done, with losses that add up to `total`; its order came
    of a generator in the state `order_from`.
    """

    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    validations: list[tuple[int, float]] = field(default_factory=list)
    best: dict[str, Tensor] | None = None
    best_epoch: int = 0
    stopped: bool = False
    seconds: float = 0.0
    n_batches: int = 0
    total: float = 0.0
    order_from: Tensor | None = None

    @classmethod
    def of(cls, values: dict[str, Any]) -> Progress:
        """What `vars` gave, from memory or from a file."""
        pairs = [(epoch, value) for epoch, value in values["validations"]]
        return cls(**{**values, "losses": list(values["losses"]), "validations": pairs})

    def add(self, losses: list[tuple[Tensor, int]]) -> None:
        """Add mean losses of so many rows each, and empty the list."""
        if not losses:
            return
        values = torch.stack([loss for loss, _ in losses]).tolist()
        for value, (_, n) in zip(values, losses, strict=True):
            self.total += value * n
        losses.clear()

    def end_epoch(self, mean: float) -> None:
        """Count the epoch at hand, whose loss is `mean`, and begin the next one."""
        self.epoch += 1
        self.losses.append(mean)
        self.n_batches, self.total, self.order_from = 0, 0.0, None

    def validated(self, value: float, weights: dict[str, Tensor], config: TrainingConfig) -> None:
        """Keep the weights of the best value; with patience, stop after too many others."""
        best = max((earlier for _, earlier in self.validations), default=-math.inf)
        self.validations.append((self.epoch, value))
        if value > best:
            self.best_epoch, self.best = self.epoch, weights
        waited = (self.epoch - self.best_epoch) // config.validate_every
        self.stopped = bool(config.patience) and waited >= config.patience


def run_epochs(
    module: torch.nn.Module,
    n: int,
    loss_of: Callable[[Tensor], Tensor],
    *,
    config: TrainingConfig,
    generator: torch.Generator,
    validate: Callable[[], float] | None = None,
    state: dict[str, Any] | None = None,
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
    before_epoch: Callable[[], object] = lambda: None,
    after_step: Callable[[], object] = lambda: None,
    error: type[KeptError] = ConfigError,
) -> TrainingHistory:
    """Minimise `loss_of` batches of `n` rows over the epochs of `config`.

    `kept.kge.training.train` describes the arguments. All draws are of `generator`. Raises
    `error` for a loss that is not finite.
    """
    started = time.perf_counter()
    optimiser = make_optimiser(module, config)
    state = (None if snapshots is None else snapshots.read()) or state
    progress = Progress() if state is None else _restore(state, module, optimiser, generator)
    before = progress.seconds

    def current() -> dict[str, Any]:
        progress.seconds = before + time.perf_counter() - started
        return {
            "weights": _weights(module),
            "optimiser": optimiser.state_dict(),
            "generator": generator.get_state(),
            "progress": {**vars(progress)},
        }

    while progress.epoch < config.n_epochs and not progress.stopped:
        module.train()
        if not progress.n_batches:
            before_epoch()
        unread: list[tuple[Tensor, int]] = []
        for rows in _batches_left(progress, n, config.batch_size, generator):
            loss = loss_of(rows)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            after_step()
            unread.append((loss.detach(), len(rows)))
            progress.n_batches += 1
            is_due = snapshots is not None and snapshots.is_due
            if is_due or loss.device.type == "cpu" or len(unread) == READ_AT_ONCE:
                progress.add(unread)
            if snapshots is not None and is_due and math.isfinite(progress.total):
                snapshots.write(current())
        progress.add(unread)
        _end_epoch(progress, n, config, error)
        if on_epoch is not None:
            on_epoch(progress.epoch, progress.losses[-1])
        if validate and config.validate_every and progress.epoch % config.validate_every == 0:
            progress.validated(validate(), _weights(module), config)
    saved = current()
    if snapshots is not None:
        snapshots.write(saved)
    if progress.best is not None:
        module.load_state_dict(progress.best)
    return TrainingHistory(
        losses=tuple(progress.losses),
        validations=tuple(progress.validations),
        best_epoch=progress.best_epoch or progress.epoch,
        stopped_early=progress.stopped,
        seconds=progress.seconds,
        state=saved,
    )


def make_optimiser(module: torch.nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Adagrad, Adam or AdamW over all parameters, fused: one pass over the memory of a table."""
    kinds: dict[str, type[torch.optim.Optimizer]] = {
        "adagrad": torch.optim.Adagrad,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    return kinds[config.optimiser](module.parameters(), lr=config.learning_rate, fused=True)  # type: ignore[call-arg]


def shuffled_batches(n: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Row indices of one epoch, `[batch]` at a time."""
    order = torch.randperm(n, generator=generator)
    for start in range(0, n, batch_size):
        yield order[start : start + batch_size]


def _batches_left(
    progress: Progress, n: int, batch_size: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """The batches of the epoch that are not done; a cut epoch keeps its order."""
    if progress.order_from is None:
        progress.order_from = generator.get_state()
        return shuffled_batches(n, batch_size, generator)
    again = torch.Generator().set_state(progress.order_from)
    return islice(shuffled_batches(n, batch_size, again), progress.n_batches, None)


def _end_epoch(progress: Progress, n: int, config: TrainingConfig, error: type[KeptError]) -> None:
    mean = progress.total / n
    progress.end_epoch(mean)
    if not math.isfinite(mean):
        raise error(
            f"loss is {mean} in epoch {progress.epoch}; lower learning_rate "
            f"({config.learning_rate})"
        )


def _weights(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def _restore(
    state: dict[str, Any],
    module: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    generator: torch.Generator,
) -> Progress:
    module.load_state_dict(state["weights"])
    optimiser.load_state_dict(deepcopy(state["optimiser"]))  # it would share the tensors
    generator.set_state(state["generator"])
    return Progress.of(state["progress"])
