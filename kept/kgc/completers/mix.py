"""A mix as a completer: trained scorers as they are, under weights that validation fitted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import CheckpointError, ConfigError
from kept.evaluation.ranking import Direction, Filter, HasScores, Triple, Triples
from kept.kgc.completers.base import Completer, Reason
from kept.kgc.mixing import SIDES, MixedScorer, Mixture, fit_mixture
from kept.kge.splits import Splits
from kept.kge.trained import SCORER, load_scorer, read_description
from kg_loaders import KnowledgeGraph

PARTS = "parts"


@dataclass(frozen=True, eq=False)
class MixPart:
    """A scorer of the mix: its folder and, unless it is a table of vectors, the completer in it."""

    folder: Path
    completer: Completer | None

    @property
    def name(self) -> str:
        """The scorer's name."""
        return str(read_description(self.folder)["scorer"])

    def on(self, graph: KnowledgeGraph, context: Triples) -> HasScores:
        """Its scores; ConfigError: a table of another graph's vectors."""
        if self.completer is not None:
            return self.completer.on(graph, context)
        if read_description(self.folder)["id_space_hash"] != graph.id_space_hash:
            raise ConfigError(
                f"the mix holds {self.name}, with a vector per entity of its training: it answers "
                "no other graph and no new entity; mix completers alone"
            )
        return load_scorer(self.folder, graph).scorer


@dataclass(frozen=True, eq=False)
class MixCompleter:
    """Scorers under a mixture; `relations` are the names of its rows, in order."""

    parts: tuple[MixPart, ...]
    mixture: Mixture
    relations: tuple[str, ...]

    @property
    def reads(self) -> Literal["triples", "texts"]:
        """Texts where any of its scorers does."""
        kinds = {part.completer.reads for part in self.parts if part.completer is not None}
        return "texts" if "texts" in kinds else "triples"

    def on(self, graph: KnowledgeGraph, context: Triples) -> MixedScorer:
        scorers = [part.on(graph, context) for part in self.parts]
        return MixedScorer(scorers, self.mixture, self._rows(graph))

    def _rows(self, graph: KnowledgeGraph) -> NDArray[np.int64]:
        ids_by_name = {name: i for i, name in enumerate(self.relations)}
        return np.array([ids_by_name.get(name, -1) for name in graph.relations], np.int64)

    def reasons(
        self, graph: KnowledgeGraph, context: Triples, direction: Direction, triple: Triple
    ) -> list[Reason]:
        """Those of its completers, their changes under the weights; ConfigError: tables alone."""
        if all(part.completer is None for part in self.parts):
            raise ConfigError(
                "the mix compares vectors and reads no facts or texts, so "
                "there is nothing to explain"
            )
        row = self._rows(graph)[triple[1]]
        direction_weights = self.mixture.weights[SIDES.index(direction)]
        weights = (
            direction_weights.mean(0) if row < 0 else direction_weights[row]
        ) / self.mixture.spreads
        reasons = []
        for part, weight in zip(self.parts, weights.tolist(), strict=True):
            if part.completer is not None and weight > 0:
                for reason in part.completer.reasons(graph, context, direction, triple):
                    reasons.append(replace(reason, change=reason.change * weight))
        return sorted(reasons, key=lambda one: -one.change)

    def weights(self) -> dict[str, Tensor]:
        return {"weights": torch.from_numpy(self.mixture.weights)}

    def described(self) -> dict[str, Any]:
        return {
            "scorer": "mix",
            "relations": list(self.relations),
            "mixed": [part.name for part in self.parts],
            "mixture": self.mixture.as_json(),
        }

    def save_extra_files(self, folder: Path) -> list[str]:
        for number, part in enumerate(self.parts):
            shutil.copytree(part.folder, folder / PARTS / str(number))
        files = sorted(path for path in (folder / PARTS).rglob("*") if path.is_file())
        return [path.relative_to(folder).as_posix() for path in files]


def fit_mix(parts: Sequence[MixPart], splits: Splits, *, filter: Filter, seed: int) -> MixCompleter:
    """The mix of trained scorers, fitted on the validation triples of `splits`.

    Raises `CheckpointError` for a scorer that was trained with other splits: it may have learned
    what fits the weights.
    """
    for part in parts:
        training = read_description(part.folder)["training"]
        trained_with = (training.get("splits_hash"), training.get("graph"))
        if trained_with != (splits.splits_hash, splits.graph.id_space_hash):
            raise CheckpointError(
                f"{part.folder} was trained with other splits than those given, so that their "
                "validation may have been trained on; give the source of its training"
            )
    scorers = [part.on(splits.graph, splits.train) for part in parts]
    mixture = fit_mixture(
        scorers, splits.valid, filter=filter, n_relations=splits.graph.n_relations, seed=seed
    )
    return MixCompleter(tuple(parts), mixture, tuple(splits.graph.relations))


def open_mix(
    folder: Path, described: Mapping[str, Any], opened: Callable[[Path], Completer | None]
) -> MixCompleter:
    """The mix that a folder holds; `opened` reads a part of it."""
    part_folders = [folder / PARTS / str(number) for number in range(len(described["mixed"]))]
    for part_folder in part_folders:
        if not (part_folder / SCORER.manifest).is_file():
            raise CheckpointError(f"{part_folder} is missing: a part of the mix")
    parts = tuple(MixPart(part_folder, opened(part_folder)) for part_folder in part_folders)
    mixture = Mixture.from_json(described["mixture"])
    return MixCompleter(parts, mixture, tuple(described["relations"]))
