"""Inductive completion, for entities unseen in training: splits, and baselines without vectors.

A *part* is a context graph and query triples, with ids of its own: row i is the entity
`entities[i]` of the whole graph. So training knows nothing of test entities, not even their number.

Axis legend: entity (of a part), triple.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from kept.errors import ConfigError, EvaluationError
from kept.evaluation.ranking import SLOTS, Direction, Filter
from kept.kge.splits import Splits
from kept.randomness import generator
from kg_loaders import KnowledgeGraph

Triples = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Part:
    """`context` may be read, `queries` are ranked among all `entities`, `known` is filtered.

    Shapes: `entities [entity]` (ids of the whole graph, ascending), triples `[triple 3]` in rows.
    """

    entities: NDArray[np.int64]
    context: Triples
    queries: Triples
    known: Mapping[str, Triples]

    @property
    def n_entities(self) -> int:
        """All of them are candidates."""
        return len(self.entities)

    def filter(self, n_relations: int) -> Filter:
        """For `kept.evaluation.ranking.rank`."""
        return Filter(self.known, n_entities=self.n_entities, n_relations=n_relations)


@dataclass(frozen=True, eq=False)
class InductiveSplit:
    """The graph of all names and texts, the training part, and the evaluated parts.

    `train.context` are the training triples (`train.queries` is empty). `parts` by name are
    evaluated: "valid" for model selection, the others are reported. `counts`: what was sampled and
    left out, and why.
    """

    graph: KnowledgeGraph
    train: Part
    parts: Mapping[str, Part]
    counts: Mapping[str, int]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(part.queries)}" for name, part in self.parts.items())
        return f"InductiveSplit(train {len(self.train.context)}, {sizes})"


def make_part(
    context: NDArray[np.integer],
    queries: NDArray[np.integer],
    known_triples: Mapping[str, NDArray[np.integer]],
    *,
    entities: NDArray[np.integer] | None = None,
) -> Part:
    """A part from triples of the whole graph; `entities` default to all that occur in them."""
    rows = {name: np.asarray(part, np.int64).reshape(-1, 3) for name, part in known_triples.items()}
    rows |= {"": np.asarray(context, np.int64).reshape(-1, 3)}
    rows |= {" ": np.asarray(queries, np.int64).reshape(-1, 3)}
    if entities is None:
        entities = np.concatenate([part[:, [0, 2]].ravel() for part in rows.values()])
    ids = np.unique(np.asarray(entities, np.int64))
    local = {name: _localised(part, ids) for name, part in rows.items()}
    return Part(ids, local.pop(""), local.pop(" "), local)


def two_graphs(train: Splits, other: Splits, graph: KnowledgeGraph) -> InductiveSplit:
    """GraIL's setting (Teru et al., ICML 2020, section 4.1): train on one graph, test on another.

    `graph` names the entities of both; the rows of `train` and `other` are its ids. "valid" are
    the first graph's (as released), "test" the second's test triples with its training triples as
    context; all of its three splits are filtered. Triples of the second graph whose relation was
    not trained are left out and counted, as are, without being left out, entities that both graphs
    hold (8 in WN18RR_v3).
    """
    trained = np.unique(train.train[:, 1])
    counts: dict[str, int] = {}
    remaining: dict[str, NDArray[np.int32]] = {}
    for name, rows in other.as_mapping().items():
        keep = np.isin(rows[:, 1], trained)
        remaining[name] = rows[keep]
        counts[f"{name} triples of the second graph with an untrained relation"] = int(
            (~keep).sum()
        )
    if not len(remaining["test"]):
        raise ConfigError("the second graph has no test triple whose relation was trained")
    trained_entities = np.unique(train.train[:, [0, 2]])
    valid_rows = train.valid[np.isin(train.valid[:, [0, 2]], trained_entities).all(1)]
    counts["validation triples with an entity that was not trained"] = len(train.valid) - len(
        valid_rows
    )
    learned = make_part(train.train, train.train[:0], {}, entities=trained_entities)
    first = {"train": train.train, "valid": valid_rows}
    parts = {
        "valid": make_part(train.train, valid_rows, first, entities=trained_entities),
        "test": make_part(remaining["train"], remaining["test"], remaining),
    }
    shared = np.intersect1d(trained_entities, parts["test"].entities)
    counts["entities of the second graph that training saw"] = len(shared)
    return InductiveSplit(graph, learned, parts, counts)


def split_unseen(
    splits: Splits, *, valid_share: float, test_share: float, context_share: float, seed: int
) -> InductiveSplit:
    """Hold entities out of a benchmark: every triple with one of them leaves the training.

    `valid_share` and `test_share` of all entities are sampled uniformly. Of the triples of held-out
    entities (from all three splits) a sampled `context_share` may be read; the others are queries.
    "test" and "valid" rank all seen entities and the held-out ones of that part; "transductive" and
    "transductive valid" are the benchmark's own test and validation triples among seen entities.
    Triples that join the two held-out groups, and those with an entity or relation that is left
    without a training triple, are left out and counted.
    """
    _check_shares(valid_share, test_share, context_share)
    graph, draws = splits.graph, generator(seed, "unseen entities")
    order = draws.permutation(graph.n_entities)
    n_test, n_valid = (round(graph.n_entities * share) for share in (test_share, valid_share))
    group = np.zeros(graph.n_entities, np.int8)
    group[order[:n_test]], group[order[n_test : n_test + n_valid]] = 2, 1
    every = np.concatenate([splits.train, splits.valid, splits.test])
    ends = group[every[:, [0, 2]]]
    train = splits.train[(group[splits.train[:, [0, 2]]] == 0).all(1)]
    trained = np.zeros(graph.n_entities, bool)
    trained[train[:, [0, 2]]] = True
    relations = np.unique(train[:, 1])
    answerable = (trained[every[:, [0, 2]]] | (ends > 0)).all(1) & np.isin(every[:, 1], relations)
    mixed = (ends == 1).any(1) & (ends == 2).any(1)
    counts = {
        "entities held out for validation": n_valid,
        "entities held out for the test": n_test,
        "training triples that left": len(splits.train) - len(train),
        "triples that join both held-out groups": int(mixed.sum()),
        "triples with an entity or relation without training": int((~answerable & ~mixed).sum()),
    }
    seen_rows = {
        name: rows[trained[rows[:, [0, 2]]].all(1) & np.isin(rows[:, 1], relations)]
        for name, rows in splits.as_mapping().items()
    } | {"train": train}
    parts = {}
    for name, number in (("valid", 1), ("test", 2)):
        rows = every[(ends == number).any(1) & ~mixed & answerable]
        is_context = generator(seed, "context", name).random(len(rows)) < context_share
        context = np.concatenate([train, rows[is_context]])
        known_triples = {"train+valid+test of seen entities": np.concatenate([*seen_rows.values()])}
        parts[name] = make_part(
            context, rows[~is_context], known_triples | {"of unseen entities": rows}
        )
        counts[f"context triples of {name}"] = int(is_context.sum())
    seen_ids = np.flatnonzero(trained)
    for name, rows in (("transductive", "test"), ("transductive valid", "valid")):
        parts[name] = make_part(train, seen_rows[rows], seen_rows, entities=seen_ids)
    learned = make_part(train, train[:0], {}, entities=seen_ids)
    return InductiveSplit(graph, learned, parts, counts)


class DegreeScorer:
    """A candidate's score is how often it fills the predicted slot of the relation in `context`.

    Equal counts are ordered by the candidate's degree; the query's entity is ignored.
    """

    def __init__(self, context: NDArray[np.integer], *, n_entities: int, n_relations: int) -> None:
        rows = torch.as_tensor(np.asarray(context, np.int64)).reshape(-1, 3)
        self._by_slot = {}
        degree = torch.bincount(rows[:, [0, 2]].ravel(), minlength=n_entities).double()
        for slot in (0, 2):
            keys = rows[:, 1] * n_entities + rows[:, slot]
            counts = torch.bincount(keys, minlength=n_relations * n_entities).double()
            self._by_slot[slot] = counts.view(n_relations, n_entities) + degree / (
                2 + 2 * len(rows)
            )
        self._relations = torch.bincount(rows[:, 1], minlength=n_relations).double()

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; relations score by how frequent they are."""
        if direction == "relation":
            return self._relations.expand(len(triples), -1)
        return self._by_slot[SLOTS[direction]][triples[:, 1]]


class PageRankScorer:
    """A candidate's score is its PageRank from the question's entity, along edges of `context`.

    Personalised PageRank by power iteration (Page et al. 1999, section 6): both directions of every
    triple are edges, whatever the relation; the walk returns with a chance of `restart`.
    """

    def __init__(
        self,
        context: NDArray[np.integer],
        *,
        n_entities: int,
        restart: float = 0.15,
        n_iterations: int = 20,
    ) -> None:
        rows = np.asarray(context, np.int64).reshape(-1, 3)
        ends = np.concatenate([rows[:, [0, 2]], rows[:, [2, 0]]])
        weights = np.ones(len(ends), np.float32)
        edges = sparse.csr_matrix((weights, ends.T), shape=(n_entities, n_entities))
        degrees = np.asarray(edges.sum(1)).ravel()
        scale = sparse.diags(1 / np.maximum(degrees, 1)).astype(np.float32)
        self._steps = (scale @ edges).T.tocsr()  # column j: where a walker at j goes
        self._restart, self._n_iterations, self._n = restart, n_iterations, n_entities

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[batch candidate]`; a walk ends at a dead end. EvaluationError: relations."""
        if direction == "relation":
            raise EvaluationError("PageRank ranks entities; leave the direction relation out")
        anchors, inverse = torch.unique(triples[:, 2 - SLOTS[direction]], return_inverse=True)
        start = np.zeros((self._n, len(anchors)), np.float32)
        start[anchors.numpy(), np.arange(len(anchors))] = 1
        state = start
        for _ in range(self._n_iterations):
            state = self._restart * start + (1 - self._restart) * (self._steps @ state)
        return torch.from_numpy(np.ascontiguousarray(state.T))[inverse]


def _localised(rows: Triples, ids: NDArray[np.int64]) -> Triples:
    result = rows.copy()
    for slot in (0, 2):
        position = np.minimum(np.searchsorted(ids, rows[:, slot]), len(ids) - 1)
        if len(rows) and not (ids[position] == rows[:, slot]).all():
            raise ConfigError("a part's triples name entities that are not its own")
        result[:, slot] = position
    return result


def _check_shares(valid_share: float, test_share: float, context_share: float) -> None:
    faults = [
        f"{name} {share} is outside (0, 0.5)"
        for name, share in (("valid_share", valid_share), ("test_share", test_share))
        if not 0 < share < 0.5
    ]
    if not 0 <= context_share < 1:
        faults.append(f"context_share {context_share} is outside [0, 1)")
    if faults:
        raise ConfigError("split by unseen entities: " + "; ".join(faults))
