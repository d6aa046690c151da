"""The mixture of layers, against loops."""

from __future__ import annotations

import math

import pytest
import torch

from kept.errors import BatchError
from kept.heads.layer_mix import LayerMix


def mixed_by_hand(states: list[torch.Tensor], scores: list[float], gamma: float) -> list[float]:
    shares = [math.exp(s) / sum(map(math.exp, scores)) for s in scores]
    return [
        gamma * sum(shares[j] * float(states[j][0, 0, i]) for j in range(len(states)))
        for i in range(states[0].shape[-1])
    ]


def test_equals_the_formula_by_loops() -> None:
    states = list(torch.randn(3, 1, 1, 4, generator=torch.Generator().manual_seed(0)))
    mix = LayerMix(3, layer_norm=False)
    assert mix.report() == {"weights": pytest.approx([1 / 3] * 3), "gamma": 1.0}
    scores, gamma = [0.5, -1.0, 2.0], 1.5
    with torch.no_grad():
        mix.scores.copy_(torch.tensor(scores))
        mix.gamma.fill_(gamma)
    assert mix(states)[0, 0].tolist() == pytest.approx(mixed_by_hand(states, scores, gamma))
    normed = [(s - s.mean()) / (s.var(unbiased=False) + 1e-5).sqrt() for s in states]
    mix.layer_norm = True
    assert mix(states)[0, 0].tolist() == pytest.approx(
        mixed_by_hand(normed, scores, gamma), abs=1e-6
    )


def test_another_number_of_layers_is_refused() -> None:
    with pytest.raises(BatchError, match="2 layers of states, this mixes 3"):
        LayerMix(3, layer_norm=False)(list(torch.zeros(2, 1, 1, 4)))
