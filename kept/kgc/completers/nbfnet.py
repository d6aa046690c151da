"""NBFNet as a completer: new entities by their triples, along the relations of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor

from kept.errors import CheckpointError
from kept.evaluation.ranking import Direction, HasScores, Triple, Triples
from kept.kgc.completers.base import Reason
from kept.kgc.completers.paths import facts_behind
from kept.kgc.completers.relations import RelationRows
from kept.kgc.completers.ultra import N_LAYERS, ULTRA_RECIPE, WIDTH, train_on_paths
from kept.kgc.training import by_recipe
from kept.kge.kinds import Trained, Training
from kept.kge.options import PathOptions
from kept.kge.trained import WEIGHTS
from kept.kge.ultra.nbfnet import NBFNet
from kept.kge.ultra.training import UltraScorer
from kept.model_files import require_finite
from kept.randomness import torch_draws
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class NBFNetCompleter:
    """A trained NBFNet; `relations` are the names of its relations, in order."""

    model: NBFNet
    relations: tuple[str, ...]
    width: int
    reads: ClassVar[Literal["triples"]] = "triples"

    def on(self, graph: KnowledgeGraph, context: Triples) -> HasScores:
        relation_ids = RelationRows.of("nbfnet", self.relations, graph)
        inner = UltraScorer(
            self.model,
            relation_ids.read(context),
            n_entities=graph.n_entities,
            n_relations=len(self.relations),
        )
        return _Renamed(inner, relation_ids)

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        relation_ids = RelationRows.of("nbfnet", self.relations, graph)
        rows = np.asarray(context, np.int64).reshape(-1, 3)[relation_ids.readable(context)]
        return facts_behind(
            self.model,
            graph,
            rows,
            direction,
            triple,
            relations=relation_ids.rows,
            n_relations=len(self.relations),
        )

    def weights(self) -> dict[str, Tensor]:
        return dict(self.model.state_dict())

    def described(self) -> dict[str, Any]:
        return {
            "scorer": "nbfnet",
            "width": self.width,
            "n_layers": N_LAYERS,
            "relations": list(self.relations),
        }

    def save_extra_files(self, folder: Path) -> list[str]:
        del folder
        return []


@dataclass(frozen=True, eq=False)
class _Renamed:
    inner: UltraScorer
    relation_rows: RelationRows

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; EvaluationError: a relation that training never saw, or ranked."""
        queries = triples if direction == "relation" else self.relation_rows.with_rows(triples)
        return self.inner.scores(direction, queries)


def train(training: Training) -> Trained:
    """Train NBFNet on the relations of a graph."""
    options, splits = training.options, training.splits
    assert isinstance(options, PathOptions)
    config, width = by_recipe(ULTRA_RECIPE, options), options.width or WIDTH
    relations = tuple(splits.graph.relations)
    with torch_draws(training.seed, "initial weights"):
        model = NBFNet(len(relations), width=width, n_layers=N_LAYERS)
    completer = NBFNetCompleter(model, relations, width)
    scorer = completer.on(splits.graph, splits.train)
    history = train_on_paths(training, model, scorer, config, "nbfnet")
    model.eval()
    settings = {"config": asdict(config), "asked": options.ask}
    return Trained(scorer=completer, history=history, settings=settings)


def open_nbfnet(
    folder: Path, described: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> NBFNetCompleter:
    """The completer that a folder holds; CheckpointError: weights of other sizes."""
    relations, width = tuple(described["relations"]), int(described["width"])
    model = NBFNet(len(relations), width=width, n_layers=int(described["n_layers"]))
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(
            f"{folder / WEIGHTS} holds no NBFNet of these sizes: {error}"
        ) from error
    require_finite(model, folder / WEIGHTS)
    return NBFNetCompleter(model.eval(), relations, width)
