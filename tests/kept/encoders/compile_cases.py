"""`compile_cases.py CASES.pt`: compile each encoder; what went wrong with each, as JSON."""

from __future__ import annotations

import json
import sys

import torch

from kept.batches import KnowledgeBatch
from kept.encoders.base import KnowledgeEncoder


def same(encoder: KnowledgeEncoder, batch: KnowledgeBatch) -> None:
    """States and gradients, eager and compiled; raises where one graph is not all, or they part."""
    compiled = torch.compile(encoder, backend="aot_eager", fullgraph=True)
    real, found = batch.node_mask, []
    for called in (encoder, compiled):
        encoder.zero_grad(set_to_none=True)
        states = called(batch).node_states
        states[real].square().sum().backward()
        gradients = {k: p.grad for k, p in encoder.named_parameters() if p.grad is not None}
        found.append((states[real].detach(), gradients))
    (eager, before), (ours, after) = found
    torch.testing.assert_close(ours, eager, atol=1e-5, rtol=1e-4)
    for name, gradient in (before | after).items():
        if name not in before or name not in after:  # unused: no gradient, or one of zeros
            assert not gradient.any(), name
            continue
        assert before[name].layout == after[name].layout, name
        dense = [found[name].to_dense() for found in (after, before)]
        torch.testing.assert_close(*dense, atol=1e-3, rtol=1e-3)


told = {}
for name, encoder, batch in torch.load(sys.argv[1], weights_only=False):
    torch._dynamo.reset()
    try:
        same(encoder, batch)
        told[name] = ""
    except Exception as error:  # noqa: BLE001  # told, and the test fails
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))  # noqa: T201  # the test reads it
