"""How many candidates are above an answer and tied with it; known answers do not compete.

Axis legend: batch, candidate, known (a known answer of some query of the batch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import EvaluationError

Ties = Literal["optimistic", "realistic", "pessimistic"]
_COUNT_NUMBERS = 1 << 17  # compare in pieces whose result stays in the cache
_EXACT_IN_FLOAT32 = 1 << 24
_SORTED_FROM = 5  # answers in one row: from here on a sort costs less than their comparisons
_LONG_ROW = 4096  # from here on a call a row costs less than a number in place of a byte


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
class Comparable:
    """Numbers that rise with the scores and may cost less, `values [batch candidate]`.

    `tied` gives the least and the greatest number with the same score as each of `[batch]`; None:
    the numbers are the scores.
    """

    values: Tensor
    tied: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None


@dataclass(frozen=True, eq=False)
class KnownColumns:
    """Known answers of every query: those of query i are `columns[starts[i] : ends[i]]`, each once.

    Shapes: `starts` and `ends` int `[batch]`, `columns` int `[known]`.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    columns: NDArray[np.int64]

    @classmethod
    def none(cls, n: int) -> KnownColumns:
        """Those of `n` queries of which nothing is known."""
        nowhere = np.zeros(n, np.int64)
        return cls(nowhere, nowhere, np.zeros(0, np.int64))

    def columns_of(self, row: int) -> NDArray[np.int64]:
        """Those of one query."""
        return self.columns[self.starts[row] : self.ends[row]]

    def of(self, rows: NDArray[np.int64]) -> KnownColumns:
        """Those of some queries, which may repeat."""
        return KnownColumns(self.starts[rows], self.ends[rows], self.columns)

    def listed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The query and the column of each, both `[known]`."""
        counts = self.ends - self.starts
        rows = np.repeat(np.arange(len(counts)), counts)
        positions = np.arange(len(rows)) + np.repeat(
            self.starts - np.cumsum(counts) + counts, counts
        )
        return rows, self.columns[positions]


def count(
    compared: Comparable,
    gold: Tensor,
    known_columns: KnownColumns,
    rows: NDArray[np.int64] | None = None,
) -> RankCounts:
    """Compare each answer, of column `gold` int `[batch]`, with all columns but the known ones.

    `rows [batch]`, rising, says which row of the numbers each answer is in, where several answers
    are to one question; None: each has its own. `known_columns` are those of the rows.
    EvaluationError: a score is NaN.
    """
    values = compared.values.detach()
    if rows is None:
        rows = np.arange(len(gold))
    rows_there = torch.from_numpy(rows).to(values.device)
    gold_values = values[rows_there, gold]
    tied = compared.tied(gold_values) if compared.tied else (gold_values, gold_values)
    is_plain = values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64)
    if is_plain and values.shape[1] >= _LONG_ROW:
        _check(bool(np.isnan(np.maximum.reduce(values.numpy(), axis=None, initial=-np.inf))))
        bounds = (tied[0].numpy(), tied[1].numpy())
        return _counted_by_row(values.numpy(), *bounds, rows, gold.numpy(), known_columns)
    if len(rows) != len(values) or (rows != np.arange(len(rows))).any():
        values, known_columns = values.index_select(0, rows_there), known_columns.of(rows)
    return _counted_with_known(values, *tied, gold, known_columns)


def rank_scores(scores: Tensor, gold: Tensor, mask: Tensor | None) -> RankCounts:
    """Compare the gold score of each row with those of its competitors.

    Shapes: `scores [batch candidate]`, `gold` int `[batch]` (column of the answer), `mask` bool
    `[batch candidate]`, True = competes; None lets all compete. The gold's own mask is ignored.
    EvaluationError: a score is NaN.
    """
    if mask is None:
        return count(Comparable(scores), gold, KnownColumns.none(len(scores)))
    gold_scores = scores.gather(1, gold[:, None])
    return _counted_at_once(scores, gold_scores, gold_scores, gold, mask)


def _counted_by_row(
    values: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    rows: NDArray[np.int64],
    gold: NDArray[np.int64],
    known_columns: KnownColumns,
) -> RankCounts:
    """Every row by itself, which stays in the cache."""
    counts = np.zeros((2, len(rows)), np.int64)
    firsts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])[: len(rows)])
    holds = np.empty(values.shape[1], np.bool_)
    for first, end in pairwise([*firsts.tolist(), len(rows)]):
        row, answers = values[rows[first]], slice(first, end)
        columns = known_columns.columns_of(int(rows[first]))
        if end - first < _SORTED_FROM:
            for i in range(first, end):
                counts[:, i] = _counted(row, low[i], high[i], gold[i], columns, holds)
        else:
            counts[:, answers] = _counted_sorted(
                row, low[answers], high[answers], gold[answers], columns
            )
    return RankCounts(counts[0], counts[1])


def _counted(
    row: NDArray[Any], low: Any, high: Any, gold: int, columns: NDArray[np.int64], holds: Any
) -> tuple[int, int]:
    """Numbers above and tied with one answer; one byte a comparison, in the memory of `holds`."""
    numbers = []
    for compare, bound in ((np.greater, high), (np.greater_equal, low)):
        compare(row, bound, out=holds)
        holds[gold] = False
        numbers.append(int(np.count_nonzero(holds)) - int(np.count_nonzero(holds.take(columns))))
    return numbers[0], numbers[1] - numbers[0]


def _counted_sorted(
    row: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    gold: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same for many answers in one row: they are looked up in the sorted competitors."""
    competes = np.ones(len(row), np.bool_)
    competes[columns] = False
    is_among = competes[gold]  # an answer that is not known would be its own competitor
    competitors = np.sort(row[competes])
    n_up_to_high = np.searchsorted(competitors, high, "right")
    n_below_low = np.searchsorted(competitors, low, "left")
    return len(competitors) - n_up_to_high, n_up_to_high - n_below_low - is_among


def _counted_with_known(
    values: Tensor, low: Tensor, high: Tensor, gold: Tensor, known_columns: KnownColumns
) -> RankCounts:
    """Counts among all columns, less those among the known ones; a row an answer, on any device."""
    counts = _counted_at_once(values, low[:, None], high[:, None], gold, None)
    places, columns = known_columns.listed()
    others = columns != gold.cpu().numpy()[places]
    places, columns = places[others], columns[others]
    indices = [torch.from_numpy(array).to(values.device) for array in (places, columns)]
    scores = values[indices[0], indices[1]]
    low, high = (bound.index_select(0, indices[0]) for bound in (low, high))
    n_greater, n_equal = (
        np.bincount(places[holds.cpu().numpy()], minlength=len(values))
        for holds in (scores > high, (scores >= low) & (scores <= high))
    )
    return RankCounts(counts.n_greater - n_greater, counts.n_equal - n_equal)


def _counted_at_once(
    values: Tensor, low: Tensor, high: Tensor, gold: Tensor, mask: Tensor | None
) -> RankCounts:
    """Several rows at once, on any device; the lowest and highest tie are `[batch 1]`."""
    _check(bool(torch.isnan(values.max() if values.numel() else values.sum())))
    n_greater, n_equal = [], []
    step = max(1, _COUNT_NUMBERS // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        competes = None if mask is None else mask[rows].scatter(1, gold[rows, None], True)
        greater = _count(torch.gt, values[rows], high[rows], competes)
        n_greater.append(greater)
        n_equal.append(_count(torch.ge, values[rows], low[rows], competes) - greater - 1)
    return RankCounts(_cat(n_greater), _cat(n_equal))


def _count(
    compare: Callable[..., Tensor], values: Tensor, bounds: Tensor, competes: Tensor | None
) -> Tensor:
    """Ones and zeros of the values' own type: only that comparison is vectorised, and its sum."""
    exact = values.dtype in (torch.float32, torch.float64)
    ones = torch.empty_like(values, dtype=values.dtype if exact else torch.float32)
    compare(values, bounds, out=ones)
    if competes is not None:
        ones *= competes
    wide = torch.float64 if values.shape[1] > _EXACT_IN_FLOAT32 else None
    return ones.sum(1, dtype=wide)


def _check(is_nan: bool) -> None:
    if is_nan:
        raise EvaluationError("a score is NaN; check the model's weights and its training loss")


def _cat(parts: list[Tensor]) -> NDArray[np.int64]:
    if not parts:
        return np.zeros(0, np.int64)
    return np.asarray(torch.cat(parts).cpu().numpy(), dtype=np.int64)
