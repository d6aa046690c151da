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
    real, results = batch.node_mask, []
    for called in (encoder, compiled):
        encoder.zero_grad(set_to_none=True)
        states = called(batch).node_states
        states[real].square().sum().backward()
        gradients = {k: p.grad for k, p in encoder.named_parameters() if p.grad is not None}
        results.append((states[real].detach(), gradients))
    (eager, before), (ours, after) = results
    torch.testing.assert_close(ours, eager, atol=1e-5, rtol=1e-4)
    for name, gradient in (before | after).items():
        if name not in before or name not in after:  # unused: no gradient, or one of zeros
            assert not gradient.any(), name
            continue
        assert before[name].layout == after[name].layout, name
        dense = [gradients[name].to_dense() for gradients in (after, before)]
        torch.testing.assert_close(*dense, atol=1e-3, rtol=1e-3)


errors = {}
for name, encoder, batch in torch.load(sys.argv[1], weights_only=False):
    torch._dynamo.reset()
    try:
        same(encoder, batch)
        errors[name] = ""
    except Exception as error:  # noqa: BLE001  # told, and the test fails
        errors[name] = f"{type(error).__name__}: {error}"
print(json.dumps(errors))  # noqa: T201  # the test reads it
