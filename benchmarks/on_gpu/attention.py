"""Attention over rows that several samples share, each node seeing some of its own sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from benchmarks.on_gpu.common import Trial, precision

HEADS, WIDTH = 12, 64


def run(trial: Trial) -> None:
    """Long packed rows with sparse visibility, then short rows where padding alone is masked."""
    sizes = ((2, 64),) if trial.small else ((64, 512), (256, 128))
    backwards = list(trial.precisions.items())[::-1]  # the one that is compiled first
    for rows, nodes in sizes:
        for name, dtype in backwards:
            with precision(name):
                _packed(trial, rows, nodes, name, dtype or torch.float32)
    for name, dtype in backwards:
        with precision(name):
            _padded(trial, *sizes[-1], name, dtype or torch.float32)


def _states(trial: Trial, rows: int, nodes: int, dtype: torch.dtype) -> list[Tensor]:
    heads = 2 if trial.small else HEADS
    states = torch.randn(3, rows, heads, nodes, WIDTH, device=trial.device, dtype=dtype)
    return [each.requires_grad_(not trial.small) for each in states.unbind()]


def _measure(
    trial: Trial, ways: dict[str, Callable[[], Tensor]], query: Tensor, **named: Any
) -> None:
    with torch.no_grad():
        expected = ways["eager"]()
    for name, way in ways.items():
        with torch.no_grad():
            far = float((way() - expected).abs().max())
            line = {"way": name, "forward_ms": round(trial.median_ms(way), 3), "farthest": far}
        if not trial.small:  # on a processor flex_attention has no backward
            line["step_ms"] = round(
                trial.median_ms(lambda way=way: torch.autograd.grad(way().float().sum(), query)), 3
            )
        trial.line(**named, **line)


def _packed(trial: Trial, rows: int, nodes: int, name: str, dtype: torch.dtype) -> None:
    """Four samples a row, a third of the nodes of its own sample not seen."""
    draws = torch.Generator().manual_seed(0)
    samples = torch.arange(nodes) * 4 // nodes
    seen = torch.rand(rows, nodes, nodes, generator=draws) < 2 / 3
    seen = (seen | seen.mT) & (samples[:, None] == samples[None])
    seen = (seen | torch.eye(nodes, dtype=torch.bool)).to(trial.device)
    query, key, value = _states(trial, rows, nodes, dtype)
    additive = torch.zeros(seen.shape, device=trial.device, dtype=dtype)
    additive.masked_fill_(~seen, torch.finfo(dtype).min)

    def blocks() -> Any:
        return create_block_mask(
            lambda b, _h, q, k: seen[b, q, k], rows, None, nodes, nodes, device=trial.device
        )

    ways: dict[str, Callable[[], Tensor]] = {
        "eager": lambda: (query @ key.mT / WIDTH**0.5 + additive[:, None]).softmax(-1) @ value,
        "sdpa": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None]),
    }
    if trial.small or (name == "bf16"):  # compiling takes long: in one precision
        flex: Any = flex_attention if trial.small else torch.compile(flex_attention)
        masks = blocks()
        ways["flex"] = lambda: flex(query, key, value, block_mask=masks)
    _measure(trial, ways, query, rows=rows, nodes=nodes, precision=name, mask="sparse")
    if "flex" in ways:
        trial.line(
            way="flex", rows=rows, nodes=nodes, block_mask_ms=round(trial.median_ms(blocks), 3)
        )


def _padded(trial: Trial, rows: int, nodes: int, name: str, dtype: torch.dtype) -> None:
    """Rows of different lengths, where padding alone is masked: three quarters are real."""
    draws = torch.Generator().manual_seed(0)
    lengths = torch.randint(nodes // 2, nodes + 1, (rows,), generator=draws)
    real = (torch.arange(nodes) < lengths[:, None]).to(trial.device)
    query, key, value = _states(trial, rows, nodes, dtype)
    additive = torch.zeros(real.shape, device=trial.device, dtype=dtype)
    additive.masked_fill_(~real, torch.finfo(dtype).min)
    places = real.flatten().nonzero()[:, 0]
    cut = F.pad(lengths.cumsum(0), (1, 0)).to(trial.device, torch.int32)

    def compact(states: Tensor) -> Tensor:
        return states.transpose(1, 2).flatten(0, 1).index_select(0, places)

    def whole(states: Tensor) -> Tensor:
        out = states.new_zeros(rows * nodes, *states.shape[1:]).index_copy(0, places, states)
        return out.unflatten(0, (rows, nodes)).transpose(1, 2)

    def masked(states: Tensor) -> Tensor:
        return states * real[:, None, :, None]

    ways: dict[str, Callable[[], Tensor]] = {
        "eager": lambda: masked(
            (query @ key.mT / WIDTH**0.5 + additive[:, None, None]).softmax(-1) @ value
        ),
        "sdpa": lambda: masked(
            F.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None])
        ),
    }
    if dtype == torch.bfloat16:
        from torch.nn.attention.varlen import varlen_attn

        ways["varlen"] = lambda: whole(
            varlen_attn(compact(query), compact(key), compact(value), cut, cut, nodes, nodes)
        )
    _measure(trial, ways, query, rows=rows, nodes=nodes, precision=name, mask="padding")
