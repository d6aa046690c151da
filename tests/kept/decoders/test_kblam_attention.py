"""The loss on attention to the right fact: against a loop, in training, and its faults."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from kept.decoders.kblam.config import KBLaMConfig
from kept.decoders.kblam.model import KBLaM
from kept.decoders.kblam.training import (
    MicroBatch,
    attention_loss,
    loss_of,
    new_optimiser,
    train_step,
)
from kept.errors import BatchError
from tests.kept.tiny_decoders import texts, tiny_decoder

N_FACTS = 5


def model_of(**options: int) -> KBLaM:
    torch.manual_seed(0)
    return KBLaM(tiny_decoder("llama"), KBLaMConfig(vector_width=4, every=2, **options))


def vectors() -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(4)
    keys, values = (torch.randn(N_FACTS, 4, generator=draws) for _ in range(2))
    return keys, values


def batch_of(right: list[int] | None) -> MicroBatch:
    ids, mask = texts("right")
    ids, mask = ids[:2], mask[:2]
    labels = ids.masked_fill(~mask, -100)
    labels[:, 0] = -100
    rows = torch.arange(N_FACTS).expand(2, -1)
    return MicroBatch(ids, mask, labels, rows, None if right is None else torch.tensor(right))


def test_the_loss_against_a_loop() -> None:
    draws = torch.Generator().manual_seed(2)
    weights = {n: torch.rand(3, 2, 4, N_FACTS, generator=draws) for n in (0, 2)}
    predicting = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1]]).bool()
    right = torch.tensor([1, -1, 4])
    layers = []
    for of_layer in weights.values():
        logs = []
        for text in (0, 2):
            for node in range(4):
                if predicting[text, node]:
                    summed = [
                        sum(float(of_layer[text, head, node, fact]) for head in range(2))
                        for fact in range(N_FACTS)
                    ]
                    logs.append(-math.log(summed[right[text]] / sum(summed)))
        layers.append(sum(logs) / len(logs))
    loss = attention_loss(weights, predicting, right)
    assert float(loss) == pytest.approx(sum(layers) / 2, abs=1e-5)
    assert float(attention_loss(weights, predicting, torch.tensor([-1, -1, -1]))) == 0


def test_it_is_added_and_without_it_nothing_changes() -> None:
    model, right = model_of(), batch_of([2, -1])
    plain = loss_of(model, batch_of(None), *vectors())
    assert torch.equal(loss_of(model, right, *vectors()), plain)
    read = model.read(right.input_ids, right.node_mask, model.encoder(*vectors()))
    predicting = torch.nn.functional.pad(right.labels[:, 1:] != -100, (0, 1))
    assert right.right_facts is not None
    of_attention = attention_loss(read.fact_weights, predicting, right.right_facts)
    both = loss_of(model, right, *vectors(), attention=0.5)
    torch.testing.assert_close(both, plain + 0.5 * of_attention)


def test_attention_learns_the_right_fact() -> None:
    model, batch = model_of().train(), batch_of([2, 0])
    optimiser, schedule = new_optimiser(model, 60, learning_rate=0.02, decay=False)
    for _ in range(60):
        train_step(model, [batch], vectors(), optimiser, schedule, attention=1.0)
    read = model.read(batch.input_ids, batch.node_mask, model.encoder(*vectors()))
    last = read.fact_weights[2].mean(dim=1)
    for row, fact in ((0, 2), (1, 0)):
        nodes = last[row, batch.labels[row].roll(-1)[:-1].ne(-100).nonzero()[:, 0]]
        assert nodes.argmax(dim=-1).tolist() == [fact] * len(nodes)


def test_what_it_needs_is_said() -> None:
    with pytest.raises(BatchError, match="needs right_facts"):
        loss_of(model_of(), batch_of(None), *vectors(), attention=1.0)
    with pytest.raises(BatchError, match="prunes no facts"):
        loss_of(model_of(top_k=2), batch_of([0, 1]), *vectors(), attention=1.0)
    batch = batch_of([0, 1])
    with pytest.raises(BatchError, match="both or neither"):
        dataclasses.replace(batch, prompt_mask=batch.node_mask)
