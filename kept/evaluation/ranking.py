"""Filtered ranking; filter, tie rule, directions and candidates are part of the result.

A *direction* is the slot of a triple that is predicted: head, relation or tail. Other known answers
of a query do not compete ("filtered", Bordes et al. 2013, section 4.2).

Axis legend: batch, triple, candidate, known (a known answer of some query of the batch).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import EvaluationError

Direction = Literal["head", "relation", "tail"]
Ties = Literal["optimistic", "realistic", "pessimistic"]
SLOTS: dict[Direction, int] = {"head": 0, "relation": 1, "tail": 2}
OUTSIDE = "an id outside the graph"
NOT_A_CANDIDATE = "the answer is not among the candidates"
_MAX_ROWS = 256  # more questions at once make no matrix product faster, only larger
_COUNT_NUMBERS = 1 << 17  # compare in pieces whose result stays in the cache
_EXACT_IN_FLOAT32 = 1 << 24
_LONG_ROW = 4096  # from here on a call a row costs less than a number in place of a byte


class ScoresFunction(Protocol):
    """Scores every id of the predicted slot, higher is better: `[batch candidate]`."""

    def __call__(self, direction: Direction, triples: Tensor, /) -> Tensor: ...


@runtime_checkable
class HasScores(Protocol):
    """Anything with a `ScoresFunction`, such as a `kept.kge.Scorer`."""

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Numbers of candidates above the answer and tied with it (itself excluded), `[batch]`.

    >>> RankCounts(np.array([2]), np.array([1])).ranks("realistic")
    array([3.5])
    """

    n_greater: NDArray[np.int64]
    n_equal: NDArray[np.int64]

    def ranks(self, ties: Ties) -> NDArray[np.float64]:
        """Ranks from 1: best, mean or worst place among equal scores."""
        shares: dict[Ties, float] = {"optimistic": 0.0, "realistic": 0.5, "pessimistic": 1.0}
        if ties not in shares:
            raise EvaluationError(f"tie rule {ties!r} is unknown; take one of {sorted(shares)}")
        return np.asarray(1 + self.n_greater + shares[ties] * self.n_equal, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Answers:
    """CSR: query keys, sorted, and their sorted answers."""

    keys: NDArray[np.int64]
    offsets: NDArray[np.int64]
    answers: NDArray[np.int64]


class Filter:
    """Known answers of every query in all three directions, as CSR; built once.

    `known` names the sources in the result ("train+valid+test"); an empty mapping filters nothing.
    Shapes: every value of `known` is int `[triple 3]`. EvaluationError: an id out of range.
    """

    def __init__(
        self, known: Mapping[str, NDArray[np.integer]], *, n_entities: int, n_relations: int
    ) -> None:
        self.n_entities, self.n_relations = n_entities, n_relations
        self.description = "+".join(known) if known else "none (raw ranks)"
        parts = [np.asarray(part, np.int64).reshape(-1, 3) for part in known.values()]
        triples = np.concatenate(parts) if parts else np.zeros((0, 3), np.int64)
        if not _inside(triples, n_entities, n_relations).all():
            raise EvaluationError(
                f"known triples hold ids outside {n_entities} entities and {n_relations} relations"
            )
        self._answers = {
            direction: _csr(self._keys(direction, triples), triples[:, slot])
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
        table = self._answers[direction]
        if not len(table.keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys = self._keys(direction, triples)
        place = np.minimum(np.searchsorted(table.keys, keys), len(table.keys) - 1)
        found = table.keys[place] == keys
        starts = np.where(found, table.offsets[place], 0)
        counts = np.where(found, table.offsets[place + 1] - table.offsets[place], 0)
        rows = np.repeat(np.arange(len(triples)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, table.answers[np.repeat(starts, counts) + within]

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

    def with_ties(self, ties: Ties) -> RankingResult:
        """The same counts under another tie rule."""
        return replace(self, ties=ties)

    def of(self, direction: Direction) -> RankingResult:
        """The queries of one direction, with the skipped ones of all."""
        return replace(self.where(self.slots == SLOTS[direction]), directions=(direction,))

    def where(self, keep: NDArray[np.bool_]) -> RankingResult:
        """The queries in `keep [scored]`, with the skipped ones of all."""
        counts = RankCounts(self.counts.n_greater[keep], self.counts.n_equal[keep])
        return replace(
            self, triples=self.triples[keep], slots=self.slots[keep], counts=counts,
            n_asked=int(keep.sum()), n_skipped={},
        )  # fmt: skip

    def conditions(self) -> dict[str, object]:
        """The conditions to report beside a score."""
        return {
            "ties": self.ties, "filter": self.filter, "directions": list(self.directions),
            "candidates": self.candidates, "n_asked": self.n_asked, "n_scored": self.n_scored,
            "n_skipped": dict(self.n_skipped),
        }  # fmt: skip

    def __str__(self) -> str:
        numbers = "  ".join(f"{name} {value:.4f}" for name, value in self.metrics().items())
        skipped = "".join(f", {n} skipped ({why})" for why, n in self.n_skipped.items())
        return (
            f"{numbers}\n{self.n_asked} asked, {self.n_scored} scored{skipped}; ties {self.ties}; "
            f"filter {self.filter}; asked {'+'.join(self.directions)}; candidates {self.candidates}"
        )

    def _scored(self) -> NDArray[np.float64]:
        if not self.n_scored:
            raise EvaluationError(f"no question was scored: {self.n_skipped or 'none was asked'}")
        return self.ranks


def rank_scores(scores: Tensor, gold: Tensor, mask: Tensor | None) -> RankCounts:
    """Compare the gold score of each row with those of its competitors.

    Shapes: `scores [batch candidate]`, `gold` int `[batch]` (column of the answer), `mask` bool
    `[batch candidate]`, True = competes; None lets all compete. The gold's own mask is ignored.
    EvaluationError: a score is NaN.
    """
    if bool(torch.isnan(scores.max() if scores.numel() else scores.sum())):
        raise EvaluationError("a score is NaN; check the model's weights and its training loss")
    gold_scores = scores.gather(1, gold[:, None])
    is_plain = scores.device.type == "cpu" and scores.dtype in (torch.float32, torch.float64)
    if mask is None and is_plain and scores.shape[1] >= _LONG_ROW:
        return _counted_by_row(scores.detach().numpy(), gold_scores.detach().numpy())
    n_greater, n_equal = [], []
    step = max(1, _COUNT_NUMBERS // max(1, scores.shape[1]))
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        competes = None if mask is None else mask[rows].scatter(1, gold[rows, None], True)
        greater = _count(torch.gt, scores[rows], gold_scores[rows], competes)
        n_greater.append(greater)
        n_equal.append(_count(torch.ge, scores[rows], gold_scores[rows], competes) - greater - 1)
    return RankCounts(_cat(n_greater), _cat(n_equal))


def _counted_by_row(scores: NDArray[Any], gold_scores: NDArray[Any]) -> RankCounts:
    """As `rank_scores` where all compete: one byte a score, and a row stays in the cache."""
    found = np.empty(scores.shape[1], bool)
    counts = np.zeros((2, len(scores)), np.int64)
    for i, (row, gold_score) in enumerate(zip(scores, gold_scores, strict=True)):
        counts[0, i] = np.count_nonzero(np.greater(row, gold_score, out=found))
        counts[1, i] = np.count_nonzero(np.equal(row, gold_score, out=found)) - 1
    return RankCounts(*counts)


def _count(
    compare: Callable[..., Tensor], scores: Tensor, gold_scores: Tensor, competes: Tensor | None
) -> Tensor:
    """Ones and zeros of the scores' own type: only that comparison is vectorised, and its sum."""
    exact = scores.dtype in (torch.float32, torch.float64)
    ones = torch.empty_like(scores, dtype=scores.dtype if exact else torch.float32)
    compare(scores, gold_scores, out=ones)
    if competes is not None:
        ones *= competes
    wide = torch.float64 if scores.shape[1] > _EXACT_IN_FLOAT32 else None
    return ones.sum(1, dtype=wide)


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

    `candidates`: "all", or the entity ids that compete (relations always compete all). Scores are
    computed in blocks of at most `byte_budget` bytes, one row at least; ranks do not depend on it.
    Known answers of a block, and about 3 MB in the scorers of `kept.kge`, come on top; blocks above
    32 MB get fresh pages from the system each time, which costs as much as the scores. Shapes:
    `triples [triple 3]`. EvaluationError: a candidate that is no entity.
    """
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    skipped: dict[str, int] = {}
    inside = _inside(rows, filter.n_entities, filter.n_relations)
    _skip(skipped, OUTSIDE, int((~inside).sum()) * len(directions))
    columns = None if isinstance(candidates, str) else _columns(candidates, filter.n_entities)
    function = scorer.scores if isinstance(scorer, HasScores) else scorer
    slots, scored, greater, equal = [], [], [], []
    for direction in directions:
        chosen = None if direction == "relation" else columns
        questions = rows[inside]
        if chosen is not None:
            can_win = np.isin(questions[:, SLOTS[direction]], chosen)
            _skip(skipped, NOT_A_CANDIDATE, int((~can_win).sum()))
            questions = questions[can_win]
        n_columns = filter.n_candidates(direction) + (0 if chosen is None else len(chosen))
        step = max(1, min(_MAX_ROWS, byte_budget // (4 * n_columns)))
        for start in range(0, len(questions), step):
            block = questions[start : start + step]
            counts = _rank_block(function, direction, block, filter, chosen)
            greater.append(counts.n_greater)
            equal.append(counts.n_equal)
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


def _columns(candidates: NDArray[np.integer], n_entities: int) -> NDArray[np.int64]:
    """Sorted and distinct; raises for ids out of range, -1 included."""
    ids = np.asarray(candidates, np.int64).ravel()
    outside = ids[(ids < 0) | (ids >= n_entities)]
    if len(outside):
        raise EvaluationError(
            f"candidate {outside[0]} is no entity: ids are 0 to {n_entities - 1}; drop names that "
            "the graph does not hold"
        )
    return np.unique(ids)


def _rank_block(
    function: Callable[[Direction, Tensor], Tensor],
    direction: Direction,
    block: NDArray[np.int64],
    filter: Filter,
    columns: NDArray[np.int64] | None,
) -> RankCounts:
    """Count over all columns, then subtract the known answers: O(answers), no mask."""
    with torch.no_grad():
        scores = function(direction, torch.from_numpy(block))
    expected = (len(block), filter.n_candidates(direction))
    if tuple(scores.shape) != expected:
        raise EvaluationError(
            f"scores for {direction}s have shape {tuple(scores.shape)}, {expected=}"
        )
    gold, (known_rows, known) = block[:, SLOTS[direction]], filter.known(direction, block)
    others = known != gold[known_rows]
    known_rows, known = known_rows[others], known[others]
    if columns is not None:
        scores = scores[:, torch.from_numpy(columns).to(scores.device)]
        gold = np.searchsorted(columns, gold)
        competing = np.isin(known, columns)
        known_rows, known = known_rows[competing], np.searchsorted(columns, known[competing])
    gold_columns = torch.from_numpy(gold).to(scores.device)
    counts = rank_scores(scores, gold_columns, None)
    there = [torch.from_numpy(array).to(scores.device) for array in (known_rows, known)]
    known_scores = scores[there[0], there[1]]
    gold_scores = scores.gather(1, gold_columns[:, None])[:, 0].index_select(0, there[0])

    def rows_where(holds: Tensor) -> NDArray[np.int64]:
        chosen = known_rows.take(np.flatnonzero(holds.cpu().numpy()))
        return np.bincount(chosen, minlength=len(block))

    return RankCounts(
        counts.n_greater - rows_where(known_scores > gold_scores),
        counts.n_equal - rows_where(known_scores == gold_scores),
    )


def _inside(triples: NDArray[np.int64], n_entities: int, n_relations: int) -> NDArray[np.bool_]:
    sizes = np.array([n_entities, n_relations, n_entities])
    return np.asarray(((triples >= 0) & (triples < sizes)).all(1))


def _csr(keys: NDArray[np.int64], answers: NDArray[np.int64]) -> _Answers:
    order = np.lexsort((answers, keys))
    keys, answers = keys[order], answers[order]
    repeated = (keys[1:] == keys[:-1]) & (answers[1:] == answers[:-1])
    distinct = np.append(True, ~repeated)[: len(keys)]
    unique, starts = np.unique(keys[distinct], return_index=True)
    offsets = np.append(starts, distinct.sum()).astype(np.int64)
    return _Answers(unique, offsets, answers[distinct])


def _cat(parts: list[Tensor]) -> NDArray[np.int64]:
    if not parts:
        return np.zeros(0, np.int64)
    return np.asarray(torch.cat(parts).cpu().numpy(), dtype=np.int64)


def _skip(skipped: dict[str, int], reason: str, n: int) -> None:
    if n:
        skipped[reason] = skipped.get(reason, 0) + n
