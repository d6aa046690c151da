"""Queries against candidates: all with all, or each query with the entities sampled for it.

On a CPU scores are bound by memory, not by arithmetic. So all-with-all runs in tiles that stay in
the cache, and sampled rows are read once forward and once backward, with gradients by hand.

Axis legend: batch, candidate, entity (rows of a table), negative (sampled for one query), width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag, pad

from kept.evaluation.ranks.counting import Comparable
from kept.layers.products import is_for_onednn, linear

Norm = Literal[1, 2]
TINY = 1e-20  # keeps the gradient of a square root finite at 0
_TILE_COLUMNS = 1024  # with 256 queries, a tile and what it is made from fit a second-level cache
_TILE_NUMBERS = 1 << 18  # of elementwise differences
_MIN_ROWS = 16  # fewer rows take other kernels, whose sums round otherwise


def products(queries: Tensor, candidates: Tensor) -> Tensor:
    """Inner products `[batch candidate]`; their bits do not depend on how queries are batched."""
    if _needs_gradient(queries, candidates):
        if is_for_onednn(queries, candidates):
            return linear(queries, candidates)
        return queries @ candidates.T
    wide = _at_least_min_rows(queries)
    result = wide.new_empty(len(wide), len(candidates))
    for columns in _columns(len(candidates)):
        tile = candidates[columns]
        if is_for_onednn(wide[:_MIN_ROWS], tile):  # whichever way, however many queries there are
            result[:, columns] = linear(wide, tile)
        else:
            torch.mm(wide, tile.T, out=result[:, columns])
    return result[: len(queries)]


def negative_distances(queries: Tensor, candidates: Tensor, norm: Norm) -> Tensor:
    """`-||q - c||_norm`, `[batch candidate]`; L2 by `|q|^2 - 2 q.c + |c|^2`, a matrix product."""
    if norm == 1:
        return _tiled_distances(queries, candidates, "absolute")
    if _needs_gradient(queries, candidates):
        return -torch.cdist(queries, candidates)
    wide = _at_least_min_rows(queries)
    result = wide.new_empty(len(wide), len(candidates))
    squares = wide.square().sum(1, keepdim=True)
    for columns, tile in _without_squares(wide, candidates, None):
        torch.sub(squares, tile, out=tile).clamp_(min=0).sqrt_()
        torch.neg(tile, out=result[:, columns])
    return result[: len(queries)]


def distance_comparer(candidates: Tensor) -> Callable[[Tensor], Comparable]:
    """A function of queries that compares as `negative_distances` in the L2 norm does.

    What it makes is `-||q - c||^2`, before a sum that rounding took below 0 is set to 0: the same
    numbers, without a square root for each. `Comparable.tied` finds which of them have the root of
    the answer's. `candidates` are float32 or float64 and must not change meanwhile.
    """
    squares_of_candidates = [candidates[c].square().sum(1) for c in _columns(len(candidates))]

    def compare(queries: Tensor) -> Comparable:
        wide = _at_least_min_rows(queries)
        result = wide.new_empty(len(wide), len(candidates))
        squares = wide.square().sum(1, keepdim=True)
        for columns, tile in _without_squares(wide, candidates, squares_of_candidates):
            torch.sub(tile, squares, out=result[:, columns])
        return Comparable(result[: len(queries)], _with_the_same_root)

    return compare


def _without_squares(
    queries: Tensor, candidates: Tensor, squares: list[Tensor] | None
) -> Iterator[tuple[slice, Tensor]]:
    """Tiles of `2 q.c - |c|^2`; `squares` are `|c|^2` of each tile where they are known."""
    doubled = 2 * queries
    for i, columns in enumerate(_columns(len(candidates))):
        part = candidates[columns]
        squares_known = part.square().sum(1) if squares is None else squares[i]
        if is_for_onednn(doubled[:_MIN_ROWS], part):
            yield columns, linear(doubled, part).sub_(squares_known)
        else:
            yield columns, torch.addmm(squares_known, doubled, part.T, beta=-1)


def _with_the_same_root(values: Tensor) -> tuple[Tensor, Tensor]:
    """The least and greatest number that has the distance of each of `values`, negative squares.

    A root has few squares, as rounding takes it to half as many digits of the exponent; 0 has all
    that rounding took below 0.
    """
    squares = -values
    roots = squares.clamp(min=0).sqrt()
    ends = []
    for towards in (torch.inf, 0.0):
        end, limit = squares, torch.full_like(squares, towards)
        while True:
            following = torch.nextafter(end, limit)
            same = (following.sqrt() == roots) & (following != end)
            if not same.any():
                break
            end = torch.where(same, following, end)
        ends.append(end)
    is_zero = roots == 0
    return (-ends[0]).masked_fill(is_zero, 0.0), (-ends[1]).masked_fill(is_zero, torch.inf)


def negative_moduli(queries: Tensor, candidates: Tensor) -> Tensor:
    """`-sum_k |q_k - c_k|` over complex coordinates `[real, imaginary]`, `[batch candidate]`."""
    return _tiled_distances(queries, candidates, "modulus")


def moduli_sum(difference: Tensor) -> Tensor:
    """Sum of the complex moduli of the last axis."""
    real, imaginary = difference.chunk(2, -1)
    return (real.square() + imaginary.square() + TINY).sqrt().sum(-1)


def rows_with_summed_gradient(table: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows `[... width]` of `table [entity width]`, and the table again: compare only with
    that.

    Its gradient is then complete before that of the rows, which is added in place instead of
    allocating a third table. So no other tensor may own that gradient; none does that comes from
    this module, a matrix product or a look-up.
    """
    result: tuple[Tensor, Tensor] = _LookedUp.apply(table, ids)  # type: ignore[no-untyped-call]
    return result


def rows_of_all(table: Tensor, *ids: Tensor) -> tuple[Tensor, ...]:
    """Return rows `[... width]` of `table [entity width]` for each of several tensors of ids.

    Their gradients are summed in one table, the last first, as if each had a table and all were
    added; but for the first: its rows are added one by one.
    """
    rows: tuple[Tensor, ...] = _RowsOfAll.apply(table, *ids)  # type: ignore[no-untyped-call]
    return rows


def sampled_products(queries: Tensor, table: Tensor, sampled: Tensor) -> Tensor:
    """Inner products of each query with its own rows of `table`.

    Shapes: `queries [batch width]`, `table [entity width]`, `sampled` int `[batch negative]`;
    result `[batch negative]`.
    """
    result: Tensor = _SampledProducts.apply(queries, table, sampled)  # type: ignore[no-untyped-call]
    return result


def negative_sampled_distances(queries: Tensor, table: Tensor, sampled: Tensor) -> Tensor:
    """`-||q - c||_2` of each query and its own rows of `table`; shapes of `sampled_products`."""
    result: Tensor = _SampledDistances.apply(queries, table, sampled)  # type: ignore[no-untyped-call]
    return -result


class _LookedUp(torch.autograd.Function):
    """A look-up that adds to the table's gradient from the rest of the loss, in place."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(ids)
        return embedding(ids, table), table.view_as(table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        of_rows, of_table = gradients
        (ids,) = ctx.saved_tensors
        return of_table.index_add_(0, ids.flatten(), of_rows.flatten(0, -2)), None


class _RowsOfAll(torch.autograd.Function):
    """A table of zeros for each of the ids, and their sum, would cost more than all the rest."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, *ids: Tensor) -> tuple[Tensor, ...]:
        ctx.shape = table.shape
        ctx.save_for_backward(*ids)
        return tuple(embedding(some, table) for some in ids)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ids, total = ctx.saved_tensors, gradients[0].new_zeros(ctx.shape)
        for some, gradient in zip(reversed(ids[1:]), reversed(gradients[1:]), strict=True):
            distinct, places = some.flatten().unique(return_inverse=True)
            sums = total.new_zeros(len(distinct), ctx.shape[1])
            sums.index_add_(0, places, gradient.flatten(0, -2))
            total.index_add_(0, distinct, sums)
        total.index_add_(0, ids[0].flatten(), gradients[0].flatten(0, -2))
        return total, *(None for _ in ids)


class _SampledProducts(torch.autograd.Function):
    """Weighted sums of rows in both directions, instead of a gradient per sampled row."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor, sampled: Tensor) -> Tensor:
        ctx.save_for_backward(queries, table, sampled)
        result = queries.new_empty(sampled.shape)
        for rows, part in _row_parts(table, sampled):
            torch.sum(part.mul_(queries[rows, None]), -1, out=result[rows])
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, table, sampled = ctx.saved_tensors
        (weights,) = gradients
        return (
            _gather(table, sampled, weights),
            _scatter(queries, sampled, weights, len(table)),
            None,
        )


class _SampledDistances(torch.autograd.Function):
    """L2; the gradient of a distance of 0 is taken as 0, as `torch.linalg.vector_norm` does."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, table: Tensor, sampled: Tensor) -> Tensor:
        result = queries.new_empty(sampled.shape)
        for rows, part in _row_parts(table, sampled):
            torch.linalg.vector_norm(part.sub_(queries[rows, None]), dim=-1, out=result[rows])
        ctx.save_for_backward(queries, table, sampled, result)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, table, sampled, distances = ctx.saved_tensors
        weights = (gradients[0] / distances).masked_fill_(distances == 0, 0)
        to_queries = weights.sum(1, keepdim=True) * queries - _gather(table, sampled, weights)
        pulls = queries.new_zeros(len(table)).index_add_(0, sampled.flatten(), weights.flatten())
        to_table = _scatter(queries, sampled, -weights, len(table))
        return to_queries, to_table.addcmul_(pulls[:, None], table), None


def _gather(table: Tensor, sampled: Tensor, weights: Tensor) -> Tensor:
    """`sum_j weights_ij table[sampled_ij]`, `[batch width]`."""
    return embedding_bag(sampled, table, per_sample_weights=weights.contiguous(), mode="sum")


def _scatter(queries: Tensor, sampled: Tensor, weights: Tensor, n_rows: int) -> Tensor:
    """`sum_ij weights_ij queries_i` at row `sampled_ij`, `[entity width]`, in a fixed order."""
    ids = sampled.flatten()
    order = _in_order(ids, n_rows)
    ends = _counts(ids, n_rows).cumsum(0)
    starts = pad(ends[:-1], (1, 0))
    return embedding_bag(
        order // sampled.shape[1],
        queries,
        starts,
        per_sample_weights=weights.flatten()[order],
        mode="sum",
    )


def _counts(ids: Tensor, n_rows: int) -> Tensor:
    """How often each of `n_rows` ids is there; `bincount` on a GPU waits for it."""
    if ids.device.type == "cpu":
        return ids.bincount(minlength=n_rows)
    return ids.new_zeros(n_rows).index_add_(0, ids, torch.ones_like(ids))


def _in_order(ids: Tensor, n_rows: int) -> Tensor:
    """Places of `ids` by rising id, equal ones as they stand; numpy sorts 16 bits by digits."""
    if ids.device.type == "cpu" and n_rows <= 1 << 16:
        return torch.from_numpy(ids.numpy().astype(np.uint16).argsort(kind="stable"))
    return ids.argsort(stable=True)


def _row_parts(table: Tensor, sampled: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Copies of the sampled rows, `[batch negative width]`, a cache-sized part at a time."""
    step = max(1, _TILE_NUMBERS // max(1, sampled.shape[1] * table.shape[1]))
    for start in range(0, len(sampled), step):
        rows = slice(start, start + step)
        yield rows, embedding(sampled[rows], table)


def _needs_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _at_least_min_rows(queries: Tensor) -> Tensor:
    return pad(queries, (0, 0, 0, max(0, _MIN_ROWS - len(queries))))


def _columns(n: int) -> list[slice]:
    """Tiles of candidates; the last is wide, for a narrow one would take other kernels."""
    starts = [*range(0, max(1, n - _TILE_COLUMNS + 1), _TILE_COLUMNS), n]
    return [slice(start, end) for start, end in pairwise(starts)]


def _tiled_distances(queries: Tensor, candidates: Tensor, kind: str) -> Tensor:
    result: Tensor = _TiledDistances.apply(queries, candidates, kind)  # type: ignore[no-untyped-call]
    return -result


class _TiledDistances(torch.autograd.Function):
    """Sums of absolute values or moduli; tiles of differences are recomputed for the gradient."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: Tensor, kind: str) -> Tensor:
        ctx.save_for_backward(queries, candidates)
        ctx.kind = kind
        result = queries.new_empty(len(queries), len(candidates))
        for rows, columns in _tiles(queries, candidates):
            tile = queries[rows, None] - candidates[columns]
            if kind == "modulus":
                real, imaginary = tile.square_().chunk(2, -1)
                tile = real.add_(imaginary).add_(TINY).sqrt_()
            else:
                tile.abs_()
            torch.sum(tile, -1, out=result[rows, columns])
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, candidates = ctx.saved_tensors
        to_queries, to_candidates = torch.zeros_like(queries), torch.zeros_like(candidates)
        for rows, columns in _tiles(queries, candidates):
            slopes = queries[rows, None] - candidates[columns]
            outer = gradients[0][rows, columns, None]
            if ctx.kind == "modulus":
                real, imaginary = slopes.chunk(2, -1)
                inverse = real.square().addcmul_(imaginary, imaginary).add_(TINY).rsqrt_()
                inverse *= outer
                real.mul_(inverse)
                imaginary.mul_(inverse)
            else:
                slopes.sign_().mul_(outer)
            to_queries[rows] += slopes.sum(1)
            to_candidates[columns] -= slopes.sum(0)
        return to_queries, to_candidates, None


def _tiles(queries: Tensor, candidates: Tensor) -> Iterator[tuple[slice, slice]]:
    n_pairs = max(1, _TILE_NUMBERS // max(1, queries.shape[1]))
    n_rows = max(1, min(len(queries), int(n_pairs**0.5)))
    n_columns = max(1, n_pairs // n_rows)
    for start in range(0, len(queries), n_rows):
        for first in range(0, len(candidates), n_columns):
            yield slice(start, start + n_rows), slice(first, first + n_columns)
