"""Filtered ranking; filter, tie rule, directions and candidates are part of the result.

A *direction* is the slot of a triple that is predicted: head, relation or tail. Other known answers
of a query do not compete ("filtered", Bordes et al. 2013, section 4.2).

Axis legend: batch, triple, candidate, known (a known answer of some query of the batch).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import EvaluationError
from kept.evaluation.ranks.counting import (
    Comparable,
    KnownColumns,
    RankCounts,
    Ties,
    count,
    rank_scores,
)

__all__ = [
    "NOT_A_CANDIDATE",
    "OUTSIDE",
    "SLOTS",
    "Direction",
    "Filter",
    "HasComparer",
    "HasScores",
    "RankCounts",
    "RankingResult",
    "ScoresFunction",
    "Ties",
    "Triple",
    "Triples",
    "rank",
    "rank_scores",
]  # fmt: skip

Direction = Literal["head", "relation", "tail"]
Triple = tuple[int, int, int]
"""Ids of a head, a relation and a tail."""
Triples = NDArray[np.integer]
"""Ids `[triple 3]`."""
SLOTS: dict[Direction, int] = {"head": 0, "relation": 1, "tail": 2}
OUTSIDE = "an id outside the graph"
NOT_A_CANDIDATE = "the answer is not among the candidates"
_MAX_ROWS = 256  # more questions at once make no matrix product faster, only larger


class ScoresFunction(Protocol):
    """Scores every id of the predicted slot, higher is better: `[batch candidate]`."""

    def __call__(self, direction: Direction, triples: Tensor, /) -> Tensor: ...


@runtime_checkable
class HasScores(Protocol):
    """Anything with a `ScoresFunction`, such as a `kept.kge.Scorer`."""

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor: ...


@runtime_checkable
class HasComparer(Protocol):
    """What makes numbers in the order of its scores for less, where only ranks are asked for.

    They depend on the query alone, not on the answer nor on other queries: `rank` asks once for all
    answers to one query.
    """

    def comparer(self, direction: Direction, /) -> Callable[[Tensor], Comparable]:
        """A function of `triples [batch 3]`; it may hold what they share."""
        ...


@dataclass(frozen=True, eq=False)
class _Answers:
    """CSR: query keys, sorted, and their sorted answers."""

    keys: NDArray[np.int64]
    offsets: NDArray[np.int64]
    answers: NDArray[np.int64]


class Filter:
    """Known answers of every query in all three directions, as CSR; built once.

    `known_triples` names the sources in the result ("train+valid+test"); an empty mapping filters
    nothing. Shapes: every value of `known_triples` is int `[triple 3]`. EvaluationError: an id out
    of range.
    """

    def __init__(
        self, known_triples: Mapping[str, NDArray[np.integer]], *, n_entities: int, n_relations: int
    ) -> None:
        self.n_entities, self.n_relations = n_entities, n_relations
        self.description = "+".join(known_triples) if known_triples else "none (raw ranks)"
        parts = [np.asarray(part, np.int64).reshape(-1, 3) for part in known_triples.values()]
        triples = np.concatenate(parts) if parts else np.zeros((0, 3), np.int64)
        if not _inside(triples, n_entities, n_relations).all():
            raise EvaluationError(
                f"known triples hold ids outside {n_entities} entities and {n_relations} relations"
            )
        self._answers = {
            direction: _csr(
                self._keys(direction, triples), triples[:, slot], self.n_candidates(direction)
            )
            for direction, slot in SLOTS.items()
        }

    def __repr__(self) -> str:
        return f"Filter({self.description}, {len(self._answers['tail'].answers)} triples)"

    def n_candidates(self, direction: Direction) -> int:
        """The number of candidates for the predicted slot."""
        return self.n_relations if direction == "relation" else self.n_entities

    def known(
        self, direction: Direction, triples: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of `triples [batch 3]` and their known answers, both `[known]`; the gold is one."""
        return self.known_columns(direction, triples).listed()

    def known_columns(self, direction: Direction, triples: NDArray[np.int64]) -> KnownColumns:
        """The known answers of each of `triples [batch 3]`; the gold is one."""
        table = self._answers[direction]
        if not len(table.keys):
            return KnownColumns.none(len(triples))
        keys = self._keys(direction, triples)
        position = np.minimum(np.searchsorted(table.keys, keys), len(table.keys) - 1)
        is_known = table.keys[position] == keys
        starts = np.where(is_known, table.offsets[position], 0)
        return KnownColumns(
            starts, np.where(is_known, table.offsets[position + 1], 0), table.answers
        )

    def same_queries(
        self, direction: Direction, triples: NDArray[np.int64], *, is_shared: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The order in which triples with one query follow each other, and where each query begins.

        Without `is_shared` every one of `triples [batch 3]` is a query, in their order. The last
        number of the second is `batch`.
        """
        n = len(triples)
        if not is_shared:
            return np.arange(n), np.arange(n + 1)
        keys = self._keys(direction, triples)
        order = keys.argsort(kind="stable")
        is_first = np.append(True, np.diff(keys[order]) != 0)[:n]
        return order, np.append(np.flatnonzero(is_first), n)

    def _keys(self, direction: Direction, triples: NDArray[np.int64]) -> NDArray[np.int64]:
        first, second, size = {
            "head": (1, 2, self.n_entities),
            "relation": (0, 2, self.n_entities),
            "tail": (0, 1, self.n_relations),
        }[direction]
        return np.asarray(triples[:, first] * size + triples[:, second])


@dataclass(frozen=True, eq=False)
class RankingResult:
    """Rank counts of every scored query, and the conditions of the evaluation.

    Shapes: `triples [scored 3]`, `slots uint8 [scored]` (the predicted slot), `counts` by query.
    """

    triples: NDArray[np.int64]
    slots: NDArray[np.uint8]
    counts: RankCounts
    ties: Ties
    filter: str
    directions: tuple[Direction, ...]
    candidates: str
    n_asked: int
    n_skipped: dict[str, int]

    @property
    def n_scored(self) -> int:
        """Queries with a rank."""
        return len(self.slots)

    @property
    def ranks(self) -> NDArray[np.float64]:
        """Ranks `[scored]` under the declared tie rule."""
        return self.counts.ranks(self.ties)

    @property
    def mr(self) -> float:
        """Mean rank."""
        return float(self._scored().mean())

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return float((1 / self._scored()).mean())

    def hits(self, k: int) -> float:
        """Share of ranks of at most `k`."""
        return float((self._scored() <= k).mean())

    def metrics(self) -> dict[str, float]:
        """MR, MRR and Hits@1/3/10."""
        return {"mr": self.mr, "mrr": self.mrr, **{f"hits@{k}": self.hits(k) for k in (1, 3, 10)}}

    def of(self, direction: Direction) -> RankingResult:
        """The queries of one direction, with the skipped ones of all."""
        return replace(self.where(self.slots == SLOTS[direction]), directions=(direction,))

    def where(self, keep: NDArray[np.bool_]) -> RankingResult:
        """The queries in `keep [scored]`, with the skipped ones of all."""
        counts = RankCounts(self.counts.n_greater[keep], self.counts.n_equal[keep])
        return replace(
            self,
            triples=self.triples[keep],
            slots=self.slots[keep],
            counts=counts,
            n_asked=int(keep.sum()),
            n_skipped={},
        )

    def conditions(self) -> dict[str, object]:
        """The conditions to report beside a score."""
        return {
            "ties": self.ties,
            "filter": self.filter,
            "directions": list(self.directions),
            "candidates": self.candidates,
            "n_asked": self.n_asked,
            "n_scored": self.n_scored,
            "n_skipped": dict(self.n_skipped),
        }

    def __str__(self) -> str:
        numbers = "  ".join(f"{name} {value:.4f}" for name, value in self.metrics().items())
        skipped = "".join(f", {n} skipped ({why})" for why, n in self.n_skipped.items())
        return (
            f"{numbers}\n{self.n_asked} asked, {self.n_scored} scored{skipped}; ties {self.ties}; "
            f"filter {self.filter}; asked {'+'.join(self.directions)}; candidates {self.candidates}"
        )

    def _scored(self) -> NDArray[np.float64]:
        if not self.n_scored:
            raise EvaluationError(
                f"no question was scored: {self.n_skipped or 'no triple was scored'}"
            )
        return self.ranks


def rank(
    scorer: ScoresFunction | HasScores,
    triples: NDArray[np.integer],
    *,
    filter: Filter,
    ties: Ties,
    directions: Sequence[Direction],
    candidates: Literal["all"] | NDArray[np.integer],
    byte_budget: int = 16 << 20,
) -> RankingResult:
    """Rank the true answer of every triple in every direction.

    `ties`: "optimistic", "realistic" or "pessimistic", the best, mean or worst place among equals.
    `candidates`: "all", or the entity ids that compete (relations always compete all). Scores are
    computed in blocks of at most `byte_budget` bytes, one row at least; ranks do not depend on it.
    Known answers of a block, and about 3 MB in the scorers of `kept.kge`, come on top; blocks
    above 32 MB get fresh pages from the system each time, which costs as much as the scores.
    Shapes: `triples [triple 3]`. EvaluationError: a candidate that is not an entity.
    """
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    skipped: dict[str, int] = {}
    inside = _inside(rows, filter.n_entities, filter.n_relations)
    _skip(skipped, OUTSIDE, int((~inside).sum()) * len(directions))
    columns = None if isinstance(candidates, str) else _columns(candidates, filter.n_entities)
    slots, scored, greater, equal = [], [], [], []
    for direction in directions:
        column_ids = None if direction == "relation" else columns
        questions = rows[inside]
        if column_ids is not None:
            can_win = np.isin(questions[:, SLOTS[direction]], column_ids)
            _skip(skipped, NOT_A_CANDIDATE, int((~can_win).sum()))
            questions = questions[can_win]
        n_columns = filter.n_candidates(direction) + (0 if column_ids is None else len(column_ids))
        step = max(1, min(_MAX_ROWS, byte_budget // (4 * n_columns)))
        function = _compared(scorer, direction)
        is_shared = isinstance(scorer, HasComparer)
        order, firsts = filter.same_queries(direction, questions, is_shared=is_shared)
        n_greater, n_equal = (np.zeros(len(questions), np.int64) for _ in range(2))
        for start in range(0, len(firsts) - 1, step):
            bounds = firsts[start : start + step + 1]
            answers = order[bounds[0] : bounds[-1]]
            rows_of_answers = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            counts = _rank_block(
                function, direction, questions[answers], rows_of_answers, filter, column_ids
            )
            n_greater[answers], n_equal[answers] = counts.n_greater, counts.n_equal
        greater.append(n_greater)
        equal.append(n_equal)
        scored.append(questions)
        slots.append(np.full(len(questions), SLOTS[direction], np.uint8))
    none = [np.zeros(0, np.int64)]
    return RankingResult(
        triples=np.concatenate([np.zeros((0, 3), np.int64), *scored]),
        slots=np.concatenate([np.zeros(0, np.uint8), *slots]),
        counts=RankCounts(np.concatenate(none + greater), np.concatenate(none + equal)),
        ties=ties,
        filter=filter.description,
        directions=tuple(directions),
        candidates="all" if columns is None else f"{len(columns)} given entities",
        n_asked=len(rows) * len(directions),
        n_skipped=skipped,
    )


def _compared(
    scorer: ScoresFunction | HasScores, direction: Direction
) -> Callable[[Tensor], Comparable]:
    if isinstance(scorer, HasComparer):
        return scorer.comparer(direction)
    function = scorer.scores if isinstance(scorer, HasScores) else scorer
    return lambda triples: Comparable(function(direction, triples))


def _columns(candidates: NDArray[np.integer], n_entities: int) -> NDArray[np.int64]:
    """Sorted and distinct; raises for ids out of range, -1 included."""
    ids = np.asarray(candidates, np.int64).ravel()
    outside = ids[(ids < 0) | (ids >= n_entities)]
    if len(outside):
        raise EvaluationError(
            f"candidate {outside[0]} is not an entity: ids are 0 to {n_entities - 1}; drop "
            f"names that "
            "the graph does not hold"
        )
    return np.unique(ids)


def _rank_block(
    function: Callable[[Tensor], Comparable],
    direction: Direction,
    block: NDArray[np.int64],
    rows: NDArray[np.int64],
    filter: Filter,
    columns: NDArray[np.int64] | None,
) -> RankCounts:
    """Compare with all columns but the known answers: O(answers), no mask.

    `rows [batch]`, rising, numbers the queries of the triples in `block [batch 3]`.
    """
    queries = block[np.append(True, rows[1:] != rows[:-1])[: len(rows)]]
    with torch.no_grad():
        compared = function(torch.from_numpy(queries))
    values, expected = compared.values, (len(queries), filter.n_candidates(direction))
    if tuple(values.shape) != expected:
        raise EvaluationError(
            f"scores for {direction}s have shape {tuple(values.shape)}, {expected=}"
        )
    gold, known_columns = block[:, SLOTS[direction]], filter.known_columns(direction, queries)
    if columns is not None:
        compared = replace(compared, values=values[:, torch.from_numpy(columns).to(values.device)])
        gold, known_columns = np.searchsorted(columns, gold), _among(columns, known_columns)
    return count(compared, torch.from_numpy(gold).to(values.device), known_columns, rows)


def _among(columns: NDArray[np.int64], known_columns: KnownColumns) -> KnownColumns:
    """Those that are among `columns`, by their places there."""
    rows, answers = known_columns.listed()
    is_there = np.isin(answers, columns)
    ends = np.cumsum(np.bincount(rows[is_there], minlength=len(known_columns.starts)))
    starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
    return KnownColumns(starts, ends, np.searchsorted(columns, answers[is_there]))


def _inside(triples: NDArray[np.int64], n_entities: int, n_relations: int) -> NDArray[np.bool_]:
    sizes = np.array([n_entities, n_relations, n_entities])
    return np.asarray(((triples >= 0) & (triples < sizes)).all(1))


def _csr(keys: NDArray[np.int64], answers: NDArray[np.int64], n_answers: int) -> _Answers:
    """`keys` and `answers` below `n_answers`, each pair once."""
    if int(keys.max(initial=0)) < np.iinfo(np.int64).max // max(n_answers, 1):  # one number a pair
        pairs = np.sort(keys * n_answers + answers)
        keys, answers = np.divmod(pairs, n_answers)
    else:
        order = np.lexsort((answers, keys))
        keys, answers = keys[order], answers[order]
    is_first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
    distinct = is_first | np.append(True, answers[1:] != answers[:-1])[: len(keys)]
    keys, answers, is_first = keys[distinct], answers[distinct], is_first[distinct]
    starts = np.flatnonzero(is_first)
    return _Answers(keys[starts], np.append(starts, len(keys)), answers)


def _skip(skipped: dict[str, int], reason: str, n: int) -> None:
    if n:
        skipped[reason] = skipped.get(reason, 0) + n
