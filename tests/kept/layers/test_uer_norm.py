"""The normalisation of UER: by its formula, and in the place of those of a host."""

from __future__ import annotations

import statistics

import pytest
import torch
from torch import nn

from kept.layers.uer_norm import UERLayerNorm, use_uer_norm

ROW = [1.0, 2.0, 4.0, 9.0]


def test_a_new_one_only_normalises() -> None:
    """By the unbiased deviation, with epsilon outside of any root."""
    mean, deviation = statistics.mean(ROW), statistics.stdev(ROW)
    expected = torch.tensor([(x - mean) / (deviation + 0.5) for x in ROW])
    torch.testing.assert_close(UERLayerNorm(4, epsilon=0.5)(torch.tensor([ROW]))[0], expected)
    assert torch.isfinite(UERLayerNorm(4)(torch.ones(2, 4))).all(), "also where all are equal"


def test_weight_and_bias_are_of_each_column() -> None:
    norm, plain = UERLayerNorm(4), UERLayerNorm(4)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        norm.bias.copy_(torch.tensor([0.0, 10.0, 20.0, 30.0]))
    states = torch.tensor([ROW, ROW[::-1]])
    expected = plain(states) * norm.weight + norm.bias
    torch.testing.assert_close(norm(states), expected)


def test_every_layer_norm_is_replaced_and_keeps_its_weights() -> None:
    module = nn.Sequential(nn.LayerNorm(4), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)))
    inner = module[1]
    assert isinstance(inner, nn.Sequential)
    nn.init.uniform_(inner[1].weight)
    weight, linear = inner[1].weight, inner[0]
    use_uer_norm(module)
    assert not any(isinstance(each, nn.LayerNorm) for each in module.modules())
    assert isinstance(module[0], UERLayerNorm)
    assert inner[1].weight is weight
    assert inner[0] is linear


@pytest.mark.parametrize("width", [2, 3])
def test_a_scaled_text_is_normalised_alike(width: int) -> None:
    states = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    norm = UERLayerNorm(width)
    torch.testing.assert_close(norm(3 * states + 1), norm(states), atol=1e-4, rtol=1e-3)
