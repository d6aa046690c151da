"""How many candidates are above an answer and tied with it; known answers do not compete.

Axis legend: batch, candidate, known (a known answer of some query of the batch).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import EvaluationError

Ties = Literal["optimistic", "realistic", "pessimistic"]
_COUNT_NUMBERS = 1 << 17  # compare in pieces whose result stays in the cache
_EXACT_IN_FLOAT32 = 1 << 24
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

    def listed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The query and the column of each, both `[known]`."""
        counts = self.ends - self.starts
        rows = np.repeat(np.arange(len(counts)), counts)
        positions = np.arange(len(rows)) + np.repeat(
            self.starts - np.cumsum(counts) + counts, counts
        )
        return rows, self.columns[positions]


def count(compared: Comparable, gold: Tensor, known_columns: KnownColumns) -> RankCounts:
    """Compare each answer, of column `gold` int `[batch]`, with all columns but the known ones.

    EvaluationError: a score is NaN.
    """
    values = compared.values.detach()
    gold_values = values.gather(1, gold[:, None])[:, 0]
    tied = compared.tied(gold_values) if compared.tied else (gold_values, gold_values)
    low, high = (bound[:, None] for bound in tied)
    is_plain = values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64)
    if is_plain and values.shape[1] >= _LONG_ROW:
        return _counted_by_row(
            values.numpy(), low.numpy(), high.numpy(), gold.tolist(), known_columns
        )
    counts = _counted_at_once(values, low, high, gold, None)
    rows, columns = known_columns.listed()
    others = columns != gold.cpu().numpy()[rows]
    rows, columns = rows[others], columns[others]
    indices = [torch.from_numpy(array).to(values.device) for array in (rows, columns)]
    scores = values[indices[0], indices[1]]
    low, high = (bound[:, 0].index_select(0, indices[0]) for bound in (low, high))
    n_greater, n_equal = (
        np.bincount(rows[holds.cpu().numpy()], minlength=len(values))
        for holds in (scores > high, (scores >= low) & (scores <= high))
    )
    return RankCounts(counts.n_greater - n_greater, counts.n_equal - n_equal)


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
    gold: list[int],
    known_columns: KnownColumns,
) -> RankCounts:
    """One byte a comparison, and a row stays in the cache; known answers are looked up in it."""
    holds = np.empty(values.shape[1], np.bool_)
    counts = np.zeros((2, len(values)), np.int64)
    highest = np.zeros(len(values), values.dtype)
    ranges = zip(known_columns.starts.tolist(), known_columns.ends.tolist(), strict=True)
    for i, (row, column, (start, end)) in enumerate(zip(values, gold, ranges, strict=True)):
        columns = known_columns.columns[start:end]
        np.maximum.reduce(row, out=highest[i : i + 1], keepdims=True)  # NaN if one is
        for bound_index, (compare, bound) in enumerate(
            ((np.greater, high), (np.greater_equal, low))
        ):
            compare(row, bound[i], out=holds)
            holds[column] = False
            counts[bound_index, i] = np.count_nonzero(holds) - np.count_nonzero(holds.take(columns))
    _check(bool(np.isnan(highest).any()))
    return RankCounts(counts[0], counts[1] - counts[0])


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
