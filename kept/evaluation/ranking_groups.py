"""Ranks by relation category and by degree, and the degree baseline.

Axis legend: triple, relation, question (a scored query, as in `RankingResult`), candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import EvaluationError
from kept.evaluation.ranking import SLOTS, Direction, RankingResult, ScoresFunction

CATEGORIES = ("1-1", "1-N", "N-1", "N-N")
DEGREES = (1, 10, 30, 100, 300)
NO_TRIPLE = "not in the triples"


def relation_categories(
    triples: NDArray[np.integer], *, n_relations: int, many: float = 1.5
) -> list[str]:
    """The category of every relation (Bordes et al., NeurIPS 2013, section 4.3).

    A side is "1" where the pairs of relation and other side have fewer than `many` (their 1.5)
    answers on average, else "N"; heads first: "1-N" has one head per tail and many tails per head.
    Counted over the distinct `triples`, int `[triple 3]` (give the training triples). A relation
    that has none is `NO_TRIPLE`.
    """
    rows = np.unique(np.asarray(triples, np.int64).reshape(-1, 3), axis=0)
    n = np.bincount(rows[:, 1], minlength=n_relations)
    sides = []
    for other in (2, 0):  # heads a (relation, tail), then tails a (head, relation)
        pairs = np.unique(rows[:, [1, other]], axis=0)
        questions = np.bincount(pairs[:, 0], minlength=n_relations)
        sides.append(np.where(n < many * questions, "1", "N"))
    named = [f"{heads}-{tails}" for heads, tails in zip(*sides, strict=True)]
    return [name if count else NO_TRIPLE for name, count in zip(named, n.tolist(), strict=True)]


def category_of_questions(result: RankingResult, categories: Sequence[str]) -> list[str]:
    """The category of each question's relation `[question]`."""
    return [categories[relation] for relation in result.triples[:, 1].tolist()]


def degree_of_questions(
    result: RankingResult,
    triples: NDArray[np.integer],
    *,
    n_entities: int,
    edges: Sequence[int] = DEGREES,
) -> list[str]:
    """The degree bin of each question's answer `[question]`: "0", "1-9", ..., "300+".

    The degree of an entity is how often it stands in `triples` (give the training triples) as head
    or tail; each of the rising `edges` starts a bin. EvaluationError: relations were predicted.
    """
    if (result.slots == SLOTS["relation"]).any():
        raise EvaluationError("a relation has no degree: ask for heads and tails only")
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    degrees = np.bincount(rows[:, [0, 2]].ravel(), minlength=n_entities)
    names = degree_names(edges)
    answers = result.triples[np.arange(result.n_scored), result.slots]
    return [names[name] for name in np.searchsorted(edges, degrees[answers], side="right")]


def degree_names(edges: Sequence[int] = DEGREES) -> list[str]:
    """The bins that `edges` cut.

    >>> degree_names((1, 10, 11))
    ['0', '1-9', '10', '11+']
    """
    starts = [0, *edges]
    ends = [start - 1 for start in edges]
    spans = [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=False)]
    return [*spans, f"{starts[-1]}+"]


def group_metrics(
    result: RankingResult, groups: Sequence[str], order: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Direction ("head", ..., and "all" of them) -> group -> n and `RankingResult.metrics()`.

    `groups [question]`; `order` names the groups in the order of the table, empty ones are left
    out. EvaluationError: a group that `order` does not hold, whose questions would be lost.
    """
    unknown = sorted({*groups} - {*order})
    if unknown or len(groups) != result.n_scored:
        raise EvaluationError(
            f"{len(groups)} groups for {result.n_scored} questions; unknown groups: {unknown}"
        )
    names = np.array(groups, dtype=np.str_)
    sides = {"all": np.ones(result.n_scored, np.bool_)}
    sides |= {direction: result.slots == SLOTS[direction] for direction in result.directions}
    metrics: dict[str, dict[str, dict[str, float]]] = {}
    for side, is_side in sides.items():
        parts = {name: result.where(is_side & (names == name)) for name in order}
        metrics[side] = {
            name: {"n": part.n_scored, **part.metrics()}
            for name, part in parts.items()
            if part.n_scored
        }
    return metrics


def degree_baseline(
    triples: NDArray[np.integer], *, n_entities: int, n_relations: int
) -> ScoresFunction:
    """Scores an entity by how many of `triples` have it as head (tail) of the query's relation.

    Relations are scored by their frequency. Most entities are tied at 0, so a ranking under
    "optimistic" ties means nothing.
    """
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    tables: dict[Direction, Tensor] = {}
    sides: tuple[Direction, ...] = ("head", "tail")
    for side in sides:
        keys = rows[:, 1] * n_entities + rows[:, SLOTS[side]]
        counts = np.bincount(keys, minlength=n_relations * n_entities)
        tables[side] = torch.from_numpy(counts.reshape(n_relations, n_entities)).float()
    frequencies = torch.from_numpy(np.bincount(rows[:, 1], minlength=n_relations)).float()

    def scores(direction: Direction, queries: Tensor, /) -> Tensor:
        if direction == "relation":
            return frequencies.expand(len(queries), -1)
        return tables[direction][queries[:, 1].long()]

    return scores
