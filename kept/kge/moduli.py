"""Distances of complex vectors in cache-sized blocks: nothing of the size of all differences.

Axis legend: batch, candidate, width (real numbers a vector).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_BLOCK_BYTES = 1 << 20  # temporaries of elementwise distances stay in the cache


def moduli_distances(queries: Tensor, candidates: Tensor) -> Tensor:
    """Sums of complex moduli of all differences, `[batch candidate]`.

    Shapes: `queries [batch width]`, `candidates [candidate width]`, [real parts, imaginary parts].
    """
    result: Tensor = _ModuliDistances.apply(queries, candidates)  # type: ignore[no-untyped-call]
    return result


class _ModuliDistances(torch.autograd.Function):
    """A cache-sized block of differences at a time, made again for the gradient."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(queries, candidates)
        result = queries.new_empty(len(queries), len(candidates))
        for rows in _blocks(queries, candidates):
            squares = (queries[rows, None] - candidates).square_()
            real, imaginary = squares.chunk(2, -1)
            torch.sum(real.add_(imaginary).add_(1e-20).sqrt_(), -1, out=result[rows])
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        queries, candidates = ctx.saved_tensors
        to_queries, to_candidates = torch.empty_like(queries), torch.zeros_like(candidates)
        for rows in _blocks(queries, candidates):
            slopes = queries[rows, None] - candidates
            real, imaginary = slopes.chunk(2, -1)
            moduli = real.square().addcmul_(imaginary, imaginary).add_(1e-20).rsqrt_()
            moduli *= gradients[0][rows, :, None]
            real.mul_(moduli)
            imaginary.mul_(moduli)
            to_queries[rows] = slopes.sum(1)
            to_candidates -= slopes.sum(0)
        return to_queries, to_candidates


def _blocks(queries: Tensor, candidates: Tensor) -> list[slice]:
    step = max(1, _BLOCK_BYTES // max(1, 4 * candidates.numel()))
    return [slice(start, start + step) for start in range(0, len(queries), step)]
