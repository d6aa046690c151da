"""Which facts made an answer: gradients choose them, leaving them out measures them.

Of ULTRA and NBFNet.

Zhu et al. 2021, "Neural Bellman-Ford Networks" (NeurIPS), section 3.4 and appendix: an edge counts
by how the score changes with its weight. Where we differ: paths are of the context's triples, and
what is printed is the change when a fact, or a whole path, is really left out.

Axis legend: triple, edge (triples, then their inverses).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.evaluation.ranking import Direction, Triple, Triples
from kept.kgc.completers.base import Reason
from kept.kge.ultra.graphs import Edges, relation_graph
from kept.kge.ultra.nbfnet import NBFNet
from kept.kge.ultra.networks import Ultra
from kg_loaders import KnowledgeGraph

N_FACTS = 8
"""Facts that are left out one at a time: those with the largest gradients."""
N_IN_PATHS, MAX_EDGES = 100, 3


def facts_behind(
    model: Ultra | NBFNet,
    graph: KnowledgeGraph,
    context: Triples,
    direction: Direction,
    triple: Triple,
    *,
    relations: NDArray[np.int64] | None = None,
    n_relations: int | None = None,
) -> list[Reason]:
    """The facts of `context [triple 3]` that raise the answer most, and the best short path.

    `relations [relation]` are the rows of a model that has `n_relations` of its own.
    """
    model.eval()
    rows = np.asarray(context, np.int64).reshape(-1, 3)
    names = np.arange(graph.n_relations) if relations is None else relations
    sizes = {"n_entities": graph.n_entities, "n_relations": n_relations or graph.n_relations}
    query = (triple[0], int(names[triple[1]]), triple[2])
    edges = Edges.of(np.stack([rows[:, 0], names[rows[:, 1]], rows[:, 2]], 1), **sizes)
    asking = _Asking(model, edges, direction, query)
    gradients = asking.gradients()
    order = np.argsort(-gradients, kind="stable")
    whole = asking.score(np.ones(len(rows), np.bool_))
    paths = [np.array([edge]) for edge in order[:N_FACTS].tolist() if gradients[edge] > 0]
    path = _best_path(rows[order[:N_IN_PATHS]], gradients[order[:N_IN_PATHS]], *asking.ends)
    if len(path) > 1:
        paths.append(order[path])
    reasons = []
    for path_edges in paths:
        kept = np.ones(len(rows), np.bool_)
        kept[path_edges] = False
        what = "; ".join(triple_in_words(graph, row) for row in rows[path_edges].tolist())
        source = "fact" if len(path_edges) == 1 else "path"
        reasons.append(Reason(source, what, whole - asking.score(kept)))
    return sorted(reasons, key=lambda one: -one.change)


class _Asking:
    """One question, with edges weighed or left out; the graph of relations stays."""

    def __init__(
        self, model: Ultra | NBFNet, edges: Edges, direction: Direction, triple: Triple
    ) -> None:
        head, relation, tail = triple
        self.model, self.edges = model, edges
        self.between = relation_graph(self.edges)
        self.is_head = torch.tensor([direction == "head"])
        self.ends = (tail, head) if direction == "head" else (head, tail)
        self.relation = torch.tensor([relation])

    def _scores(self, edges: Edges) -> Tensor:
        query, answer = self.ends
        candidates = torch.tensor([[answer]])
        scores: Tensor = self.model(
            edges, self.between, torch.tensor([query]), self.relation, self.is_head, candidates
        )
        return scores[0, 0]

    def gradients(self) -> NDArray[np.float64]:
        """Of the answer's score by the weight of each triple, both its edges together."""
        n = self.edges.ends.shape[1]
        weights = torch.ones(n, requires_grad=True)
        gradients: Any = torch.autograd.grad(
            self._scores(replace(self.edges, weights=weights)), weights
        )
        return np.asarray(gradients[0].view(2, -1).sum(0).double().numpy())

    @torch.no_grad()
    def score(self, kept: NDArray[np.bool_]) -> float:
        """The answer's score from the kept triples alone."""
        return float(self._scores(self.edges.only(torch.from_numpy(np.tile(kept, 2)))))


def _best_path(
    rows: NDArray[np.int64], gradients: NDArray[np.float64], start: int, end: int
) -> list[int]:
    """Places of the triples of the path with the largest sum, of at most `MAX_EDGES`; or none."""
    edges_of_node: dict[int, list[tuple[int, int]]] = {}
    for edge, (head, _, tail) in enumerate(rows.tolist()):
        edges_of_node.setdefault(head, []).append((tail, edge))
        edges_of_node.setdefault(tail, []).append((head, edge))
    best: tuple[float, list[int]] = (0.0, [])
    stack: list[tuple[int, list[int], tuple[int, ...]]] = [(start, [], (start,))]
    while stack:
        node, path, visited = stack.pop()
        if node == end and path:
            value = float(gradients[path].sum())
            best = max(best, (value, path), key=lambda pair: pair[0])
            continue
        if len(path) < MAX_EDGES:
            stack += [
                (other, [*path, edge], (*visited, other))
                for other, edge in edges_of_node.get(node, [])
                if other not in visited
            ]
    return best[1]


def triple_in_words(graph: KnowledgeGraph, row: Sequence[int]) -> str:
    """A triple by its labels."""
    head, relation, tail = row
    return f"{graph.label(head)} – {graph.relation_label(relation)} → {graph.label(tail)}"
