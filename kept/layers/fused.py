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

from kept.layers.products import Linear, is_for_onednn, packed, pointwise


def bert_layer(
    layer: Any, hidden: Float[Tensor, "batch node width"], mask: Tensor | None
) -> Float[Tensor, "batch node width"]:
    """Return what `layer(hidden, mask)` returns, up to rounding; for layers that `is_fusable`."""
    read = layer.attention.self
    n_batch, n_nodes, _ = hidden.shape
    heads = (n_batch, n_nodes, read.num_attention_heads, -1)
    query, key, value = (
        pointwise(hidden, packed(part), part.bias).view(heads).transpose(1, 2)
        for part in (read.query, read.key, read.value)
    )
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=read.scaling)
    attended = _with_residual(layer.attention.output, mixed.transpose(1, 2).flatten(2), hidden)
    wide = layer.intermediate.dense
    activated = pointwise(attended, packed(wide), wide.bias, "gelu", "none")
    return _with_residual(layer.output, activated, attended)


def _with_residual(part: Any, states: Tensor, residual: Tensor) -> Tensor:
    total = torch.ops.mkldnn._linear_pointwise.binary(
        states, residual, packed(part.dense), part.dense.bias, "add"
    )
    normalised: Tensor = part.LayerNorm(total)
    return normalised


def is_fusable(layer: Any, hidden: Tensor) -> bool:
    """Return whether `bert_layer` computes this layer of BERT's parts.

    That is in inference, by oneDNN, in a layer that nothing was inserted into or listens to.
    """
    if layer.training or torch.is_grad_enabled() or not type(layer).__module__.startswith(_OF_HF):
        return False
    read, attended = layer.attention.self, layer.attention.output
    maps = (read.query, read.key, read.value, attended.dense)
    maps += (layer.intermediate.dense, layer.output.dense)
    return (
        all(type(each) is Linear and each.bias is not None for each in maps)
        and all(is_for_onednn(hidden, each.weight) for each in maps[:1])
        and read.config._attn_implementation == "sdpa"
        and type(layer.intermediate.intermediate_act_fn) is GELUActivation
        and all(type(part.dropout) is nn.Dropout for part in (attended, layer.output))
        and not any(_is_heard(each) for each in layer.modules())
    )


def _is_heard(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


_OF_HF = "transformers.models."
