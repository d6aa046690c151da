"""Optimisers: who is decayed, who is sparse, at which rate."""

from __future__ import annotations

import torch

from kept.training.optimisers import (
    dense_parameters,
    make_optimisers,
    rate_factor,
    set_rates,
    sparse_parameters,
)
from tests.kept.training.training_toy import toy_config, toy_model


def test_every_parameter_has_one_optimiser() -> None:
    model = toy_model()
    optimisers = make_optimisers(model, toy_config())
    held = [p for o in optimisers.values() for g in o.param_groups for p in g["params"]]
    assert sorted(map(id, held)) == sorted(map(id, model.parameters()))
    assert [id(p) for p in sparse_parameters(model)] == [id(model.entities.weight)]
    assert id(model.entities.weight) not in [id(p) for p in dense_parameters(model)]


def test_biases_and_layer_norm_are_not_decayed() -> None:
    model = toy_model()
    decay = {
        id(p): group["weight_decay"]
        for group in make_optimisers(model, toy_config(weight_decay=0.3))["dense"].param_groups
        for p in group["params"]
    }
    names = dict(model.named_parameters())
    assert decay[id(names["mix.weight"])] == decay[id(names["words.weight"])] == 0.3
    assert decay[id(names["mix.bias"])] == decay[id(names["norm.weight"])] == 0.0


def test_frozen_parameters_have_none() -> None:
    model = toy_model()
    model.entities.weight.requires_grad_(False)
    assert list(make_optimisers(model, toy_config())) == ["dense"]


def test_rows_without_a_gradient_do_not_move() -> None:
    model = toy_model()
    before = model.entities.weight.detach().clone()
    optimisers = make_optimisers(model, toy_config())
    for rows in ([4, 7], [4], [7]):
        model.zero_grad()
        model.entities(torch.tensor(rows)).square().sum().backward()
        optimisers["rows"].step()
    moved = (model.entities.weight != before).any(1).nonzero().flatten().tolist()
    assert moved == [4, 7]


def test_rates_follow_the_schedule() -> None:
    config = toy_config(warmup_steps=2, steps=10)
    optimisers = make_optimisers(toy_model(), config)
    set_rates(optimisers, config, 0.5)
    rates = {n: [g["lr"] for g in o.param_groups] for n, o in optimisers.items()}
    assert rates == {"dense": [0.005, 0.005], "rows": [0.01]}
    factors = [rate_factor(step, 10, config) for step in range(10)]
    assert factors == [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    constant = toy_config(warmup_steps=2, schedule="constant")
    assert [rate_factor(step, 10, constant) for step in (0, 1, 5, 9)] == [0.5, 1.0, 1.0, 1.0]
