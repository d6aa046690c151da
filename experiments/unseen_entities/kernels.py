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

SIZES = ["n_nodes", "n_types", "n_batch"]
"""Arguments that no kernel is compiled for."""
N_QUESTIONS = 16
"""Questions of a batch that one program sums."""


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]
def _by_node(  # type: ignore[no-untyped-def]
    states, vectors, out, rows, starts, ends, others, types, keep, n_nodes, n_types, n_batch,
    WIDTH: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """out[b, row] += sum of states[b, other] * vectors[b, type] over the edges of a segment."""
    segment = tl.program_id(0)
    question = (tl.program_id(1) * N + tl.arange(0, N)).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = question[:, None] < n_batch
    of_states = question[:, None] * n_nodes * WIDTH + column[None, :]
    of_vectors = question[:, None] * n_types * WIDTH + column[None, :]
    row = tl.load(rows + segment)
    start = tl.load(starts + segment)
    end = tl.load(ends + segment)
    total = tl.zeros([N, WIDTH], dtype=tl.float32)
    for edge in range(start, end):
        other = tl.load(others + edge)
        kind = tl.load(types + edge)
        weight = tl.load(keep + edge)
        state = tl.load(states + of_states + other * WIDTH, mask=inside, other=0.0)
        vector = tl.load(vectors + of_vectors + kind * WIDTH, mask=inside, other=0.0)
        total += state * vector * weight
    tl.atomic_add(out + of_states + row * WIDTH, total, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=SIZES)  # type: ignore[untyped-decorator]
def _by_type(  # type: ignore[no-untyped-def]
    states, gradients, out, rows, starts, ends, firsts, seconds, keep, n_nodes, n_types, n_batch,
    WIDTH: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """out[b, type] += sum of states[b, second] * gradients[b, first] over edges of a segment."""
    segment = tl.program_id(0)
    question = (tl.program_id(1) * N + tl.arange(0, N)).to(tl.int64)
    column = tl.arange(0, WIDTH)
    inside = question[:, None] < n_batch
    of_states = question[:, None] * n_nodes * WIDTH + column[None, :]
    of_vectors = question[:, None] * n_types * WIDTH + column[None, :]
    row = tl.load(rows + segment)
    start = tl.load(starts + segment)
    end = tl.load(ends + segment)
    total = tl.zeros([N, WIDTH], dtype=tl.float32)
    for edge in range(start, end):
        first = tl.load(firsts + edge)
        second = tl.load(seconds + edge)
        weight = tl.load(keep + edge)
        state = tl.load(states + of_states + second * WIDTH, mask=inside, other=0.0)
        gradient = tl.load(gradients + of_states + first * WIDTH, mask=inside, other=0.0)
        total += state * gradient * weight
    tl.atomic_add(out + of_vectors + row * WIDTH, total, mask=inside, sem="relaxed")


def _run(kernel: Any, one: Tensor, other: Tensor, out: Tensor, segments: Any, keep: Tensor,
         n_nodes: int, n_types: int) -> None:  # fmt: skip
    n_batch, width = one.shape[0], one.shape[2]
    grid = (len(segments.rows), triton.cdiv(n_batch, N_QUESTIONS))
    kernel[grid](
        one, other, out, segments.rows, segments.starts, segments.ends, segments.firsts,
        segments.seconds, keep, n_nodes, n_types, n_batch, WIDTH=width, N=N_QUESTIONS,
    )  # fmt: skip


class MaskedSums(torch.autograd.Function):
    """boundary + the sums, and their gradients; `keeps`: the mask in each of the three orders."""

    @staticmethod
    def forward(context: Any, states: Tensor, vectors: Tensor, boundary: Tensor, edges: Any,
                keeps: tuple[Tensor, Tensor, Tensor]) -> Tensor:  # fmt: skip
        out = boundary.clone()
        sizes = edges.n_nodes, edges.n_types
        _run(_by_node, states, vectors, out, edges.received, keeps[0], *sizes)
        context.save_for_backward(states, vectors)
        context.edges, context.keeps = edges, keeps
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        states, vectors = context.saved_tensors
        edges, keeps = context.edges, context.keeps
        gradient, sizes = gradient.contiguous(), (edges.n_nodes, edges.n_types)
        of_states, of_vectors = torch.zeros_like(states), torch.zeros_like(vectors)
        _run(_by_node, gradient, vectors, of_states, edges.sent, keeps[1], *sizes)
        _run(_by_type, states, gradient, of_vectors, edges.of_type, keeps[2], *sizes)
        return of_states, of_vectors, gradient, None, None
