"""ERNIE's entity half by its equations, in loops over slots and heads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from kept.layers.fusion import EntityAttention, EntityFusion, EntityOutput, NoAttention

WIDTH, HEADS = 6, 2


def attention(dropout: float = 0.0) -> EntityAttention:
    torch.manual_seed(0)
    return EntityAttention(
        width=WIDTH, heads=HEADS, epsilon=1e-5, dropout=dropout, attention_dropout=dropout
    )


@torch.no_grad()
def by_loops(layer: EntityAttention, slots: Tensor, mask: Tensor) -> Tensor:
    """One text: `slots [slot width]`, `mask [slot slot]`."""
    size = WIDTH // HEADS
    query, key, value = (part(slots) for part in (layer.query, layer.key, layer.value))
    rows = []
    for i in range(len(slots)):
        parts = []
        for head in range(HEADS):
            at = slice(head * size, (head + 1) * size)
            scores = [
                float(query[i, at] @ key[j, at]) / math.sqrt(size) if mask[i, j] else -math.inf
                for j in range(len(slots))
            ]
            shares = torch.tensor(scores).softmax(0)
            parts.append(shares @ value[:, at])
        rows.append(torch.cat(parts))
    joined = layer.dense(torch.stack(rows))
    return layer.layer_norm(joined + slots)


def test_attention_is_that_of_loops() -> None:
    layer = attention().eval()
    slots = torch.randn(2, 4, WIDTH)
    mask = torch.rand(2, 1, 4, 4) < 0.5
    mask |= torch.eye(4, dtype=torch.bool)
    expected = torch.stack([by_loops(layer, slots[i], mask[i, 0]) for i in range(2)])
    torch.testing.assert_close(layer(slots, mask).detach(), expected, atol=1e-5, rtol=1e-4)


def test_dropout_is_of_training_alone() -> None:
    layer, slots = attention(dropout=0.5), torch.randn(1, 4, WIDTH)
    mask = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    torch.testing.assert_close(layer.eval()(slots, mask), layer(slots, mask), rtol=0, atol=0)
    layer.train()
    assert not torch.equal(layer(slots, mask), layer(slots, mask))


def test_entities_are_weighted_by_their_share() -> None:
    """0 where there is none, and a number in between where a link is unsure."""
    fusion = EntityFusion(
        width=WIDTH, inner=5, attention=attention(), epsilon=1e-5, dropout=0.0
    ).eval()
    slots, mask = torch.randn(1, 3, WIDTH), torch.ones(1, 1, 3, 3, dtype=torch.bool)
    whole = fusion.attention(slots, mask)
    shares = torch.tensor([[1.0, 0.5, 0.0]])
    attended = fusion.attend(slots, shares, mask)
    torch.testing.assert_close(attended[0, 0], whole[0, 0])
    torch.testing.assert_close(attended[0, 1], whole[0, 1] / 2)
    assert not attended[0, 2].any()
    truth = torch.tensor([[True, False, True]])
    assert not fusion.attend(slots, truth, mask)[0, 1].any()
    assert NoAttention()(slots, mask) is slots
    assert fusion.inner(slots).shape == (1, 3, 5)


def test_slots_come_back_from_the_shared_state() -> None:
    output = EntityOutput(width=WIDTH, inner=5, epsilon=1e-5, dropout=0.0)
    hidden, slots = torch.randn(1, 3, 5), torch.randn(1, 3, WIDTH)
    expected = output.layer_norm(output.dense(hidden) + slots)
    torch.testing.assert_close(output(hidden, slots), expected)
    assert isinstance(output.layer_norm, nn.LayerNorm)
    nothing = output(hidden, torch.zeros(1, 3, WIDTH))
    assert nothing.abs().sum() > 0, "as in the paper's code, a slot without an entity is not zero"


@pytest.mark.parametrize("epsilon", [1e-12, 1.0])
def test_epsilon_is_that_of_the_normalisations(epsilon: float) -> None:
    layer = EntityAttention(
        width=WIDTH, heads=1, epsilon=epsilon, dropout=0.0, attention_dropout=0.0
    )
    output = EntityOutput(width=WIDTH, inner=5, epsilon=epsilon, dropout=0.0)
    assert layer.layer_norm.eps == output.layer_norm.eps == epsilon
