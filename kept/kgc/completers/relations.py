"""Relations of a training that have vectors of their own: found by name in any other graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import EvaluationError
from kept.evaluation.ranking import Triples
from kg_loaders import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class RelationRows:
    """A graph's relations as rows of a model: `rows [relation]`, -1 where it has none."""

    scorer: str
    names: tuple[str, ...]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, scorer: str, trained: tuple[str, ...], graph: KnowledgeGraph) -> RelationRows:
        """Of a graph, by the names of the relations that were `trained`, in order."""
        rows_by_name = {name: i for i, name in enumerate(trained)}
        names = tuple(graph.relations)
        return cls(
            scorer, names, np.array([rows_by_name.get(name, -1) for name in names], np.int64)
        )

    def with_rows(self, triples: Tensor) -> Tensor:
        """`triples [batch 3]` with the model's rows; EvaluationError: a relation without one."""
        rows = torch.from_numpy(self.rows)[triples[:, 1]]
        if bool((rows < 0).any()):
            missing = self.names[int(triples[rows < 0][0, 1])]
            raise EvaluationError(
                f"relation {missing!r} was in no training triple, and {self.scorer} has a vector "
                "per relation; ask ultra or simkgc"
            )
        return torch.stack([triples[:, 0], rows, triples[:, 2]], 1)

    def readable(self, context: Triples) -> NDArray[np.int64]:
        """Places of the triples of `context [triple 3]` whose relation the model knows."""
        rows = np.asarray(context, np.int64).reshape(-1, 3)
        return np.flatnonzero(self.rows[rows[:, 1]] >= 0)

    def read(self, context: Triples) -> NDArray[np.int64]:
        """Those triples, with the model's rows."""
        rows = np.asarray(context, np.int64).reshape(-1, 3)[self.readable(context)]
        return np.stack([rows[:, 0], self.rows[rows[:, 1]], rows[:, 2]], 1)
