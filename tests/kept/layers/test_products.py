"""Products by oneDNN and by torch's library: the same numbers, chosen by time, switched by name."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from kept import hosts
from kept.batches import Visibility
from kept.errors import ConfigError
from kept.layers import fused, products
from kept.layers.products import (
    Linear,
    choice,
    linear,
    packed,
    packed_together,
    pointwise,
    use_products,
    using,
)
from tests.kept.tiny_hosts import tiny_host

needs_onednn = pytest.mark.skipif(
    not products.has_onednn(), reason="this torch was built without oneDNN"
)


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the smallest products be oneDNN's: the hosts of tests are tiny."""
    monkeypatch.setattr(products, "LEAST_WORK", 1)


def values(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def relative(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


@needs_onednn
@pytest.mark.parametrize("shape", [(7, 48), (2, 5, 48), (2, 3, 4, 48), (1, 48)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_values_and_gradients_are_those_of_torch(shape: tuple[int, ...], has_bias: bool) -> None:
    tensors = [values(*shape), values(20, 48, seed=1), values(20, seed=2)][: 2 + has_bias]
    results: list[list[Tensor]] = []
    for way in products.Way.__args__:
        copies = [each.clone().requires_grad_() for each in tensors]
        with using(way):
            product = linear(*copies)
            product.sin().sum().backward()
        gradients = [each.grad for each in copies]
        assert all(each is not None for each in gradients)
        results.append([product.detach(), *(each for each in gradients if each is not None)])
    for theirs, ours in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        assert relative(ours, theirs) < 1e-5


@needs_onednn
def test_only_gradients_that_are_needed_are_computed() -> None:
    states, weight = values(6, 32).requires_grad_(), values(8, 32, seed=1)
    with using("onednn"):
        linear(states, weight).sum().backward()
    assert states.grad is not None
    assert weight.grad is None


@needs_onednn
def test_other_types_autocast_and_small_products_are_torchs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with using("onednn"):
        assert products.is_for_onednn(values(4, 8), values(8, 8))
        assert not products.is_for_onednn(values(4, 8).double(), values(8, 8).double())
        with torch.autocast("cpu", torch.bfloat16):
            assert not products.is_for_onednn(values(4, 8), values(8, 8))
            assert linear(values(4, 8), values(8, 8)).dtype == torch.bfloat16
        monkeypatch.setattr(products, "LEAST_WORK", 4 * 8 * 8 + 1)
        assert not products.is_for_onednn(values(4, 8), values(8, 8))
    with using("torch"):
        assert not products.is_for_onednn(values(64, 8), values(8, 8))


@needs_onednn
def test_a_laid_out_weight_follows_its_layer() -> None:
    layer, states = nn.Linear(32, 16).eval(), values(5, 32)
    use_products(layer)
    assert type(layer) is Linear

    def is_right() -> bool:
        with torch.no_grad(), using("onednn"):
            ours = layer(states)
        return relative(ours, states @ layer.weight.detach().T + layer.bias.detach()) < 1e-5

    assert is_right()
    first = packed(layer)
    assert packed(layer) is first
    with torch.no_grad():
        layer.weight.mul_(2)
    assert is_right()
    layer.load_state_dict({"weight": values(16, 32, seed=3), "bias": values(16)})
    assert is_right()
    layer.weight = nn.Parameter(values(16, 32, seed=4))
    assert is_right()
    layer.weight.data = values(16, 32, seed=5)
    assert is_right()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        with torch.no_grad(), using("onednn"):
            assert torch.equal(twin(states), layer(states))


@needs_onednn
@torch.no_grad()
def test_layers_joined_in_one_product_are_each_alone_bit_by_bit_and_follow_changes() -> None:
    layers = [nn.Linear(64, 48).eval() for _ in range(3)]
    for layer in layers:
        use_products(layer)

    def is_same(states: Tensor) -> bool:
        together = pointwise(states, *packed_together(layers))
        alone = [pointwise(states, packed(layer), layer.bias) for layer in layers]
        return torch.equal(together, torch.cat(alone, -1))

    assert all(is_same(values(n_rows, 64)) for n_rows in (1, 7, 40))
    joined = packed_together(layers)
    assert packed_together(layers)[0] is joined[0]
    layers[1].weight.mul_(2)
    assert is_same(values(5, 64))
    layers[2].bias.add_(1)
    assert is_same(values(5, 64))
    layers[0].weight = nn.Parameter(values(48, 64, seed=4))
    assert is_same(values(5, 64))
    with torch.enable_grad():
        layers[0].train()(values(5, 64))
    assert layers[0] not in products._joined


@needs_onednn
def test_training_lays_nothing_out() -> None:
    layer = Linear(32, 16).eval()
    with torch.no_grad(), using("onednn"):
        layer(values(3, 32))
        assert layer in products._packed
        layer.train()(values(3, 32))
    assert layer not in products._packed


@needs_onednn
@pytest.mark.parametrize("kind", ["bert", "roberta", "electra", "distilbert", "modernbert"])
def test_states_of_a_host_are_the_same_either_way(kind: str) -> None:
    host = tiny_host(kind).eval()
    use_products(host)
    width = host.config.hidden_size
    mask = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(1)) < 0.6
    visibility = Visibility(mask | torch.eye(6, dtype=torch.bool))
    positions = torch.arange(6)[None].expand(2, 6)
    states = []
    with torch.no_grad():
        for way in products.Way.__args__:
            with using(way):
                states.append(hosts.run(host, values(2, 6, width), visibility, positions=positions))
    for theirs, ours in zip(*states, strict=True):
        assert relative(ours, theirs) < 1e-5


@needs_onednn
def test_a_layer_that_something_listens_to_is_not_fused() -> None:
    host = tiny_host("bert").eval()
    use_products(host)
    layer, hidden = hosts.layers(host)[0], values(1, 4, host.config.hidden_size)
    with using("onednn"), torch.no_grad():
        assert fused.is_fusable(layer, hidden)
        handle = layer.attention.self.register_forward_hook(lambda *_: None)
        assert not fused.is_fusable(layer, hidden)
        handle.remove()
        assert fused.is_fusable(layer, hidden)
        dropout = layer.output.dropout
        layer.output.dropout = nn.Sequential(dropout)  # as bottlenecks are put in
        assert not fused.is_fusable(layer, hidden)
        layer.output.dropout = dropout
        assert not fused.is_fusable(layer.train(), hidden)
    with using("onednn"):
        assert not fused.is_fusable(layer.eval(), hidden)


def test_the_setting_decides_and_a_wrong_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(products.SETTING, "torch")
    assert str(products.choose_products()).startswith("torch's own library (KEPT_PRODUCTS=torch")
    monkeypatch.setenv(products.SETTING, "mkl")
    with pytest.raises(ConfigError, match="'mkl'; use auto, torch or onednn"):
        products.choose_products()


@needs_onednn
def test_the_faster_library_is_chosen_once_on_a_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(products.SETTING, raising=False)
    monkeypatch.setenv("KEPT_CACHE", str(tmp_path / "cache"))
    timed: list[float] = []

    def gain() -> float:
        timed.append(1.0)
        return 1.9

    monkeypatch.setattr(products, "measured_gain", gain)
    assert products.choose_products(store=False).way == "onednn"
    assert not (tmp_path / "cache").exists()
    for _ in range(2):
        assert str(products.choose_products()) == "oneDNN (oneDNN is 1.9 times as fast here)"
    assert len(timed) == 2
    path = tmp_path / "cache" / products.STORED
    (key,) = json.loads(path.read_text())
    path.write_text(json.dumps({key: 1.1}))
    assert products.choose_products().way == "torch"
    path.write_text("no JSON")
    assert products.choose_products().way == "onednn"
    monkeypatch.setenv("MKL_CBWR", "AVX2")  # another way of MKL is another machine
    products.choose_products()
    assert len(json.loads(path.read_text())) == 2


@needs_onednn
def test_the_times_are_of_this_machine() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert 0.05 < products.measured_gain() < 50
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_a_choice_holds_until_its_block_ends() -> None:
    before = choice()
    with using("torch"):
        assert choice().way == "torch"
    assert choice() == before
