"""Training of graph models: each batch's triples are removed from the message graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from kept.errors import ConfigError, TrainingError
from kept.kge.gnn.networks import GraphModel, MessageGraph
from kept.kge.resuming.epochs import TrainingHistory, run_epochs
from kept.kge.resuming.snapshots import Snapshots
from kept.kge.training import Sampler, batch_loss
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
    snapshots: Snapshots | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> TrainingHistory:
    """Train in place on `triples` int `[triple 3]`; on CPU equal seeds give equal bits.

    In each step messages run over all triples but those of the batch, so that no answer is in the
    graph (the released R-GCN and CompGCN leave them in). With a model without messages this is
    plain training of a map. `generator` must be the one that the model's dropout draws from;
    `state` of an earlier history resumes it, `snapshots` a run that was cut. Validation, patience
    and the objectives are those of `TrainingConfig`; the best weights are restored. Raises
    `ConfigError` where one batch would leave no triple to carry messages, `TrainingError` for a
    loss that is not finite.
    """
    data = torch.as_tensor(triples, dtype=torch.int64).reshape(-1, 3)
    if not 0 < config.batch_size < len(data):
        raise ConfigError(
            f"batch_size {config.batch_size} of {len(data)} triples leaves none for "
            f"messages, as the triples of a batch carry none; use a smaller batch"
        )
    sampler = Sampler(data, n_entities, model.n_relations, config)
    sizes = {"n_entities": n_entities, "n_relations": model.n_relations}

    def loss_of(rows: Tensor) -> Tensor:
        others = torch.ones(len(data), dtype=torch.bool)
        others[rows] = False
        scorer = model(MessageGraph.of(data[others], text=text, **sizes))
        return batch_loss(scorer, data[rows], sampler, config, generator)

    return run_epochs(
        model,
        len(data),
        loss_of,
        config=config,
        generator=generator,
        state=state,
        snapshots=snapshots,
        validate=None if validate is None else lambda: validate(model),
        on_epoch=on_epoch,
        error=TrainingError,
    )
