"""ULTRA as a completer: trained on a graph's own triples, or with weights that others trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from safetensors.torch import load_file
from torch import Tensor

from kept.convert.tables import as_state, read_pickle
from kept.errors import CheckpointError, ConfigError
from kept.evaluation.ranking import Direction, HasScores, Triple, Triples
from kept.kgc.completers.base import Reason
from kept.kgc.completers.paths import facts_behind
from kept.kgc.training import by_recipe, queries_of
from kept.kge.kinds import Trained, Training
from kept.kge.options import UltraOptions
from kept.kge.resuming.epochs import TrainingHistory
from kept.kge.trained import WEIGHTS
from kept.kge.training_config import TrainingConfig
from kept.kge.ultra.networks import Ultra, make_ultra
from kept.kge.ultra.released import released
from kept.kge.ultra.training import UltraScorer, train_ultra
from kept.model_files import readable, require_finite
from kept.randomness import torch_draws, torch_generator
from kg_loaders import KnowledgeGraph

ULTRA_RECIPE = TrainingConfig(
    n_epochs=4, batch_size=32, learning_rate=0.005, optimiser="adamw",
    objective="negative_sampling", loss="log_sigmoid", n_negatives=32,
    adversarial_temperature=1.0, validate_every=1, patience=1,
)  # fmt: skip
"""What `experiments/inductive_completion` trains with; the width is 32, half the released one."""
WIDTH, N_LAYERS = 32, 6


@dataclass(frozen=True, eq=False)
class UltraCompleter:
    """An ULTRA of the released kind."""

    model: Ultra
    width: int = WIDTH
    n_layers: int = N_LAYERS
    reads: ClassVar[Literal["triples"]] = "triples"

    def on(self, graph: KnowledgeGraph, context: Triples) -> HasScores:
        return UltraScorer(
            self.model, context, n_entities=graph.n_entities, n_relations=graph.n_relations
        )

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        return facts_behind(self.model, graph, context, direction, triple)

    def weights(self) -> dict[str, Tensor]:
        return dict(self.model.state_dict())

    def described(self) -> dict[str, Any]:
        return {"scorer": "ultra", "width": self.width, "n_layers": self.n_layers}

    def save_extra_files(self, folder: Path) -> list[str]:
        del folder
        return []


def train(training: Training) -> Trained:
    """Train ULTRA, from released weights where they are given; without epochs they stay."""
    options = training.options
    assert isinstance(options, UltraOptions)
    start = None if options.weights is None else open_ultra(options.weights)
    known = None if start is None else released(start.weights())
    if known is not None:
        training.note(str(known))
    if start is not None and options.width not in (None, start.width):
        raise ConfigError(f"{options.weights} is {start.width} wide, --width says {options.width}")
    weights = {} if start is None else {"weights": str(options.weights)}
    if start is not None and options.epochs is None:
        named = {} if known is None else {"released": known.name}
        return Trained(scorer=start, history=None, settings=weights | named)
    config = by_recipe(ULTRA_RECIPE, options)
    if start is None:
        width = options.width or WIDTH
        with torch_draws(training.seed, "initial weights"):
            start = UltraCompleter(make_ultra(width=width, n_layers=N_LAYERS), width)
    scorer = start.on(training.splits.graph, training.splits.train)
    history = train_on_paths(training, start.model, scorer, config, "ultra")
    settings = {"config": asdict(config), "asked": options.ask} | weights
    return Trained(scorer=start, history=history, settings=settings)


def train_on_paths(
    training: Training, model: Any, scorer: HasScores, config: TrainingConfig, name: str
) -> TrainingHistory:
    """Train a network over paths in place; an epoch asks some triples, all of them are read."""
    splits = training.splits
    queries = queries_of(training)
    with training.progress(config.n_epochs) as on_epoch:
        return train_ultra(
            model,
            np.asarray(splits.train, np.int64),
            n_entities=splits.graph.n_entities,
            n_relations=splits.graph.n_relations,
            config=config,
            generator=torch_generator(training.seed, name),
            queries=None if len(queries) == len(splits.train) else queries,
            validate=lambda _: training.validate(scorer),
            snapshots=training.snapshots,
            on_epoch=on_epoch,
        )


def open_ultra(path: Path) -> UltraCompleter:
    """Return the ULTRA of a weights file: safetensors, or the released program's checkpoint.

    A checkpoint is read with `weights_only`: it can run no code. Its sizes are read from the
    shapes. Raises `CheckpointError`.
    """
    if path.suffix == ".safetensors":
        with readable(path):
            return ultra_of(load_file(path), path)
    stored = read_pickle(path)
    inner = stored.get("model", stored) if isinstance(stored, dict) else stored
    return ultra_of(as_state(inner, str(path)), path)


def opened(folder: Path, described: dict[str, Any], weights: dict[str, Tensor]) -> UltraCompleter:
    """Return the completer that a folder holds; its sizes are those of its weights."""
    return ultra_of(weights, folder / WEIGHTS)


def ultra_of(weights: dict[str, Tensor], folder: Path) -> UltraCompleter:
    """The completer with these weights; CheckpointError: they are no ULTRA's, or not finite."""
    first = "entity_model.layers.0.linear.bias"
    if first not in weights:
        raise CheckpointError(
            f"{folder} holds no ULTRA: {first} is missing; give a file of its released weights, or "
            "of `kept kgc train --scorer ultra`"
        )
    layers = {name.split(".")[2] for name in weights if name.startswith("entity_model.layers.")}
    width, n_layers = len(weights[first]), len(layers)
    model = make_ultra(width=width, n_layers=n_layers)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder} holds no ULTRA of one width: {error}") from error
    require_finite(model, folder)
    return UltraCompleter(model.eval(), width, n_layers)
