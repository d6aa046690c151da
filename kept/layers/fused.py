"""A layer of BERT's parts in inference, in fewer passes over memory, by oneDNN's products.

The three parts of attention's input, the output's residual and GELU are computed as
`kept.layers.products` lays them out; that is a third of the time of one short text, where the calls
between products count, and a fourteenth of that of a batch.

Axis legend: batch, node, width.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import GELUActivation

from kept.layers.products import (
    Linear,
    is_for_onednn,
    packed,
    packed_together,
    pointwise,
)


def bert_layer(
    layer: nn.Module, hidden: Float[Tensor, "batch node width"], mask: Tensor | None
) -> Float[Tensor, "batch node width"]:
    """Return what `layer(hidden, mask)` returns, up to rounding; for layers that `is_fusable`."""
    _, read, _, attended, _, wide, output, *maps = _parts(layer)
    n_batch, n_nodes, _ = hidden.shape
    product = pointwise(hidden, *packed_together(maps[:3]))
    heads = product.view(n_batch, n_nodes, 3, read.num_attention_heads, -1)
    query, key, value = heads.permute(2, 0, 3, 1, 4).unbind()
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=read.scaling)
    states = _with_residual(attended, mixed.transpose(1, 2).flatten(2), hidden)
    activated = pointwise(states, packed(wide), wide.bias, "gelu", "none")
    return _with_residual(output, activated, states)


def _with_residual(part: nn.Module, states: Tensor, residual: Tensor) -> Tensor:
    dense: Any = part._modules["dense"]
    total = torch.ops.mkldnn._linear_pointwise.binary(
        states, residual, packed(dense), dense.bias, "add"
    )
    norm: Any = part._modules["LayerNorm"]
    weights: Any = norm._parameters
    return torch.layer_norm(
        total, norm.normalized_shape, weights["weight"], weights["bias"], norm.eps
    )


def _parts(layer: nn.Module) -> tuple[Any, ...]:
    """The modules that `bert_layer` stands for: the six maps are at the end, three of them the
    queries', keys' and values'. Read from the dictionaries of modules, which is four times as fast
    as by attributes."""
    modules: Any = layer._modules
    attention, output, middle = modules["attention"], modules["output"], modules["intermediate"]
    read, attended = attention._modules["self"], attention._modules["output"]
    reads = read._modules
    wide = middle._modules["dense"]
    maps = (reads["query"], reads["key"], reads["value"])
    dense = (attended._modules["dense"], wide, output._modules["dense"])
    return (attention, read, layer, attended, middle, wide, output, *maps, *dense)


def is_fusable(layer: nn.Module, hidden: Tensor) -> bool:
    """Return whether `bert_layer` computes this layer of BERT's parts.

    That is in inference, by oneDNN, in a layer that nothing was inserted into or listens to.
    """
    if layer.training or torch.is_grad_enabled() or not type(layer).__module__.startswith(_OF_HF):
        return False
    parts = _parts(layer)
    read, attended, middle, output, maps = parts[1], parts[3], parts[4], parts[6], parts[7:]
    dropouts = (attended._modules["dropout"], output._modules["dropout"])
    norms = (attended._modules["LayerNorm"], output._modules["LayerNorm"])
    return (
        all(type(each) is Linear and each.bias is not None for each in maps)
        and is_for_onednn(hidden, maps[0].weight)
        and read.config._attn_implementation == "sdpa"
        and type(middle.intermediate_act_fn) is GELUActivation
        and all(type(each) is nn.Dropout for each in dropouts)
        and all(type(each) is nn.LayerNorm for each in norms)
        and not any(
            each._forward_hooks or each._forward_pre_hooks for each in (*parts, *dropouts, *norms)
        )
    )


_OF_HF = "transformers.models."
