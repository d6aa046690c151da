"""The share of each node in what a model reads, by attention rollout.

Axis legend: batch (one), node, head.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from kept import hosts
from kept.batches import KnowledgeBatch
from kept.heads.model import KnowledgeForTask
from kept.host_families import family_of


def gives_weights(model: KnowledgeForTask) -> bool:
    """Whether the host's layers give their attention weights (not ALBERT's, MPNet's, DeBERTa's)."""
    return bool(family_of(model.encoder.host.config).attention)


@torch.no_grad()
def rollout(model: KnowledgeForTask, batch: KnowledgeBatch) -> Float[Tensor, "node node"]:
    """The share of every node (second axis) in every node's last state; rows add up to 1.

    Attention rollout (Abnar and Zuidema 2020, section 3): heads averaged, half of each layer's
    output is its input, layers multiplied. It follows the host's own layers; what a method adds
    between or inside them is not in it. `batch` holds one sample without padding.
    """
    host, weights = model.encoder.host, []
    part = family_of(host.config).attention
    hooks = [
        layer.get_submodule(part).register_forward_hook(
            lambda _module, _inputs, outputs: weights.append(outputs[1])
        )
        for layer in hosts.layers(host)
    ]
    was = host.config._attn_implementation
    host.set_attn_implementation("eager")
    try:
        model(batch)
    finally:
        host.set_attn_implementation(was)
        for hook in hooks:
            hook.remove()
    n_nodes = batch.node_ids.shape[1]
    flow = torch.eye(n_nodes, dtype=torch.float64)
    for each in weights:
        mean = each[0].double().mean(0).cpu()
        flow = (mean + torch.eye(n_nodes, dtype=torch.float64)) / 2 @ flow
    return flow
