"""Training of graph models: each batch's triples are removed from the message graph."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from kept.errors import ConfigError, TrainingError
from kept.kge.gnn.networks import GraphModel, MessageGraph
from kept.kge.training import (
    Sampler,
    TrainingHistory,
    batch_loss,
    make_optimiser,
    shuffled_batches,
)
from kept.kge.training_config import TrainingConfig


def train_graph_model(
    model: GraphModel,
    triples: Any,
    *,
    n_entities: int,
    text: Tensor | None,
    config: TrainingConfig,
    generator: torch.Generator,
    validate: Callable[[GraphModel], float] | None = None,
    state: dict[str, Any] | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> TrainingHistory:
    """Train in place on `triples` int `[triple 3]`; on CPU equal seeds give equal bits.

    In each step messages run over all triples but those of the batch, so that no answer is in the
    graph (the released R-GCN and CompGCN leave them in). With a model without messages this is
    plain training of a map. `generator` must be the one that the model's dropout draws from;
    `state` of an earlier history resumes it. Validation, patience and the objectives are those of
    `TrainingConfig`; the best weights are restored. Raises `ConfigError` where one batch would
    leave no triple to carry messages, `TrainingError` for a loss that is not finite.
    """
    data = torch.as_tensor(triples, dtype=torch.int64).reshape(-1, 3)
    if not 0 < config.batch_size < len(data):
        raise ConfigError(
            f"batch_size {config.batch_size} of {len(data)} triples leaves none for messages; "
            "asked triples carry none: take a smaller batch"
        )
    started = time.perf_counter()
    run = _Run(model, make_optimiser(model, config), generator, state)
    sampler = Sampler(data, n_entities, model.n_relations, config)
    sizes = {"n_entities": n_entities, "n_relations": model.n_relations}
    while run.epoch < config.n_epochs and not run.stopped:
        model.train()
        total = 0.0
        for rows in shuffled_batches(len(data), config.batch_size, generator):
            others = torch.ones(len(data), dtype=torch.bool)
            others[rows] = False
            scorer = model(MessageGraph.of(data[others], text=text, **sizes))
            loss = batch_loss(scorer, data[rows], sampler, config, generator)
            run.optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            run.optimiser.step()
            total += float(loss.detach()) * len(rows)
        run.finish_epoch(total / len(data), config.learning_rate)
        if on_epoch is not None:
            on_epoch(run.epoch, run.losses[-1])
        if validate and config.validate_every and run.epoch % config.validate_every == 0:
            run.validated(validate(model), config)
    return run.history(time.perf_counter() - started)


class _Run:
    """The mutable state of a training run."""

    def __init__(
        self,
        model: GraphModel,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
        state: dict[str, Any] | None,
    ) -> None:
        self.model, self.optimiser, self.generator = model, optimiser, generator
        self.epoch, self.best_epoch, self.stopped = 0, 0, False
        self.losses: list[float] = []
        self.validations: list[tuple[int, float]] = []
        self.best: dict[str, Tensor] | None = None
        if state is not None:
            restored = deepcopy(state)
            model.load_state_dict(restored.pop("weights"))
            optimiser.load_state_dict(restored.pop("optimiser"))
            generator.set_state(restored.pop("generator"))
            vars(self).update(restored)

    def finish_epoch(self, loss: float, learning_rate: float) -> None:
        self.epoch += 1
        self.losses.append(loss)
        if not math.isfinite(loss):
            raise TrainingError(
                f"loss is {loss} in epoch {self.epoch}; lower learning_rate ({learning_rate})"
            )

    def validated(self, value: float, config: TrainingConfig) -> None:
        if value > max((earlier for _, earlier in self.validations), default=-math.inf):
            self.best_epoch = self.epoch
            self.best = _copy(self.model)
        self.validations.append((self.epoch, value))
        waited = (self.epoch - self.best_epoch) // config.validate_every
        self.stopped = bool(config.patience) and waited >= config.patience

    def history(self, seconds: float) -> TrainingHistory:
        fields = ("epoch", "best_epoch", "stopped", "losses", "validations", "best")
        state = deepcopy({name: getattr(self, name) for name in fields}) | {
            "weights": _copy(self.model),
            "optimiser": deepcopy(self.optimiser.state_dict()),
            "generator": self.generator.get_state(),
        }
        if self.best is not None:
            self.model.load_state_dict(self.best)
        return TrainingHistory(
            losses=tuple(self.losses),
            validations=tuple(self.validations),
            best_epoch=self.best_epoch or self.epoch,
            stopped_early=self.stopped,
            seconds=seconds,
            state=state,
        )


def _copy(model: GraphModel) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
