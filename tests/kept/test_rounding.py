"""The error model of trainings: rounding passes, another training does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.kept.rounding import TERMS, differences, require_same_state

N_STEPS, RATE = 6, 1e-3


def train(noise: float, *, forgotten: int = 0, seed: int = 0) -> tuple[dict[str, Tensor], ...]:
    """Weights and Adam's state after training with gradients that are off by `noise`.

    `forgotten` examples of a batch of 16 are left out. `dead` has no gradient but noise.
    """
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(24, 40), nn.Tanh(), nn.Linear(40, 3))
    dead = nn.Parameter(torch.randn(40))
    optimiser = torch.optim.Adam([*model.parameters(), dead], lr=RATE)
    draws = torch.Generator().manual_seed(seed)
    for step in range(N_STEPS):
        inputs = torch.randn(16, 24, generator=torch.Generator().manual_seed(step))
        loss = F.cross_entropy(model(inputs)[forgotten:], (inputs[forgotten:, 0] > 0).long())
        optimiser.zero_grad()
        loss.backward()
        dead.grad = torch.zeros_like(dead)
        for parameter in (*model.parameters(), dead):
            assert parameter.grad is not None
            size = parameter.grad.abs().mean() + 1e-3
            parameter.grad += noise * size * torch.randn(parameter.shape, generator=draws)
        optimiser.step()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    state = {
        f"{i}.{name}": value
        for i, each in optimiser.state_dict()["state"].items()
        for name, value in each.items()
    }
    return weights | {"dead": dead.detach()}, state


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> str:
    return differences(one, other, n_steps=N_STEPS, rate=RATE)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_explained(seed: int) -> None:
    """Gradients off by the model's own bound; without it, 2e-6 was exceeded now and then."""
    eps = torch.finfo(torch.float32).eps
    (one, state), (other, other_state) = train(0.0), train(TERMS * eps, seed=seed)
    one.pop("dead"), other.pop("dead")
    assert apart(one, other) == ""
    require_same_state(state, other_state, n_steps=N_STEPS)
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_weights_whose_gradient_is_but_rounding_may_go_either_way() -> None:
    """As the bias of keys in attention: they are few, and no further apart than steps reach."""
    (one, _), (other, _) = train(1e-6, seed=1), train(1e-6, seed=2)
    distance = (one["dead"] - other["dead"]).abs().max()
    assert RATE / 10 < distance < 2 * N_STEPS * RATE
    few = {"dead": slice(0, 6)}
    assert apart(one | {"dead": one["dead"][:6]}, other | {"dead": other["dead"][:6]}) == "", few


@pytest.mark.parametrize("forgotten", [1, 8])
def test_a_forgotten_example_is_seen(forgotten: int) -> None:
    (one, state), (other, other_state) = train(0.0), train(0.0, forgotten=forgotten)
    assert "weights are more than" in apart(one, other)
    with pytest.raises(AssertionError):
        require_same_state(state, other_state, n_steps=N_STEPS)


def test_one_step_more_is_seen() -> None:
    one, _ = train(0.0)
    other = {key: value + RATE for key, value in one.items()}
    assert "weights are more than" in apart(one, other)


def test_a_single_weight_beyond_reach_is_seen() -> None:
    one, _ = train(0.0)
    other = {key: value.clone() for key, value in one.items()}
    other["0.weight"][3, 4] += 3 * N_STEPS * RATE
    assert "0.weight" in apart(one, other)
    other["0.weight"][3, 4] = torch.nan
    assert "0.weight" in apart(one, other)


def test_other_names_and_other_whole_numbers_are_seen() -> None:
    one, _ = train(0.0)
    assert "other weights: ['dead']" in apart({k: v for k, v in one.items() if k != "dead"}, one)
    counts = {"rows": torch.tensor([1, 2])}
    assert apart(counts, counts) == ""
    assert "rows" in apart(counts, {"rows": torch.tensor([1, 3])})
