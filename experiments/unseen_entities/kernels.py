"""Sums of DistMult messages on a GPU, as Triton kernels: all questions of a batch at once.

An edge that is not kept sends no message: the order of edges is one for the whole training, and
what a step leaves out is a mask. Long rows are cut into segments, whose sums are added atomically.

Axis legend: batch, node, type, edge, segment, width.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

SIZES = ["n_ones", "n_others", "n_out", "n_batch"]
"""Arguments that no kernel is compiled for."""
N_QUESTIONS = 16
"""Questions of a batch that one program sums."""


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]
def _sum_products(  # type: ignore[no-untyped-def]
    ones, others, out, rows, starts, ends, firsts, seconds, keep, n_ones, n_others, n_out, n_batch,
    WIDTH: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """out[b, row] += sum of ones[b, first] * others[b, second] over the edges of a segment."""
    segment = tl.program_id(0)
    question = (tl.program_id(1) * N + tl.arange(0, N)).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = question[:, None] < n_batch
    of_ones = question[:, None] * n_ones * WIDTH + column[None, :]
    of_others = question[:, None] * n_others * WIDTH + column[None, :]
    of_out = question[:, None] * n_out * WIDTH + column[None, :]
    row = tl.load(rows + segment)
    start = tl.load(starts + segment)
    end = tl.load(ends + segment)
    total = tl.zeros([N, WIDTH], dtype=tl.float32)
    for edge in range(start, end):
        first = tl.load(firsts + edge)
        second = tl.load(seconds + edge)
        weight = tl.load(keep + edge)
        one = tl.load(ones + of_ones + first * WIDTH, mask=inside, other=0.0)
        other = tl.load(others + of_others + second * WIDTH, mask=inside, other=0.0)
        total += one * other * weight
    tl.atomic_add(out + of_out + row * WIDTH, total, mask=inside, sem="relaxed")


def _sum(ones: Tensor, others: Tensor, out: Tensor, segments: Any, keep: Tensor) -> None:
    n_batch, _, width = out.shape
    grid = (len(segments.rows), triton.cdiv(n_batch, N_QUESTIONS))
    sizes = ones.shape[1], others.shape[1], out.shape[1], n_batch
    _sum_products[grid](
        ones, others, out, segments.rows, segments.starts, segments.ends, segments.firsts,
        segments.seconds, keep, *sizes, WIDTH=width, N=N_QUESTIONS,
    )  # fmt: skip


class MaskedSums(torch.autograd.Function):
    """boundary + the sums, and their gradients; `keeps`: the mask in each of the three orders."""

    @staticmethod
    def forward(context: Any, states: Tensor, vectors: Tensor, boundary: Tensor, edges: Any,
                keeps: tuple[Tensor, Tensor, Tensor]) -> Tensor:  # fmt: skip
        out = boundary.clone()
        _sum(states, vectors, out, edges.received, keeps[0])
        context.save_for_backward(states, vectors)
        context.edges, context.keeps = edges, keeps
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        states, vectors = context.saved_tensors
        edges, keeps = context.edges, context.keeps
        gradient = gradient.contiguous()
        of_states, of_vectors = torch.zeros_like(states), torch.zeros_like(vectors)
        _sum(gradient, vectors, of_states, edges.sent, keeps[1])
        _sum(gradient, states, of_vectors, edges.of_type, keeps[2])
        return of_states, of_vectors, gradient, None, None
