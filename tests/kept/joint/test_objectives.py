"""Wang 2014, Zhong 2015 and Xu 2017 against loops in float64: losses and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.errors import ConfigError
from kept.joint.likelihood import Negatives, RowAdagrad
from kept.joint.wang2014 import fact_losses, link_losses, name_triples, word_losses
from kept.joint.xu2017 import Xu2017, XuSettings, XuSpace, corrupt
from kept.joint.zhong2015 import description_losses
from kept.kge.training import Sampler

N, N_NEGATIVES, WIDTH, BIAS = 3, 4, 5, 2.0
Numbers = Mapping[str, NDArray[np.float64]]


def numbers(*names: str) -> dict[str, NDArray[np.float64]]:
    """A table a name: vectors, and for `drawn_...` negatives."""
    draws = np.random.default_rng(7)
    return {
        name: draws.normal(size=(N, N_NEGATIVES, WIDTH) if name.startswith("drawn") else (N, WIDTH))
        for name in names
    }


MASK = np.array([[1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0]], bool)


def negatives_of(tables: Mapping[str, Tensor], name: str) -> Negatives:
    return Negatives(tables[name], torch.from_numpy(MASK))


def agree(
    loss_of: Callable[[Mapping[str, Tensor]], Tensor], oracle: Callable[[Numbers], float],
    values_of: dict[str, NDArray[np.float64]],
) -> None:  # fmt: skip
    """The sums agree, and the gradients with central differences of the oracle."""
    tensors = {name: torch.from_numpy(v.copy()).requires_grad_() for name, v in values_of.items()}
    total = loss_of(tensors).sum()
    assert float(total.detach()) == pytest.approx(oracle(values_of), rel=1e-12)
    total.backward()
    for name, values in values_of.items():
        expected = np.zeros_like(values)
        for index in np.ndindex(values.shape):
            sides = []
            for shift in (1e-6, -1e-6):
                moved = {n: v.copy() for n, v in values_of.items()}
                moved[name][index] += shift
                sides.append(oracle(moved))
            expected[index] = (sides[0] - sides[1]) / 2e-6
        gradient = tensors[name].grad
        assert gradient is not None
        np.testing.assert_allclose(gradient.numpy(), expected, atol=2e-7, err_msg=name)


def closeness(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return BIAS - sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)) / 2


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def predicted(context: Any, right: Any, others: Any, mask: Any) -> float:
    """One pair's loss."""
    loss = -log_sigmoid(closeness(context, right))
    for other, counts in zip(others, mask, strict=True):
        if counts:
            loss -= log_sigmoid(-closeness(context, other))
    return loss


def test_facts() -> None:
    def loss_of(t: Mapping[str, Tensor]) -> Tensor:
        others = {slot: negatives_of(t, f"drawn_{slot}") for slot in ("head", "relation", "tail")}
        return fact_losses(t["head"], t["relation"], t["tail"], others, BIAS)

    def oracle(t: Numbers) -> float:
        total = 0.0
        for i in range(N):
            h, r, tail = t["head"][i], t["relation"][i], t["tail"][i]
            for slot, right in (("head", h), ("relation", r), ("tail", tail)):
                target = {"head": tail - r, "relation": tail - h, "tail": h + r}[slot]
                total += predicted(target, right, t[f"drawn_{slot}"][i], MASK[i])
        return total

    agree(loss_of, oracle, numbers("head", "relation", "tail", "drawn_head", "drawn_relation",
                                 "drawn_tail"))  # fmt: skip


def test_a_fact_is_as_close_as_its_translation() -> None:
    """z(h, r, t) is the same whichever of the three is asked for."""
    h, r, t = torch.randn(3, 4, dtype=torch.float64)
    for one, other in ((h, t - r), (r, t - h), (t, h + r)):
        assert float((one - other).square().sum()) == pytest.approx(
            float((h + r - t).square().sum())
        )


@pytest.mark.parametrize("losses", [word_losses, link_losses])
def test_words_and_links(losses: Any) -> None:
    def loss_of(t: Mapping[str, Tensor]) -> Tensor:
        result: Tensor = losses(t["given"], t["right"], negatives_of(t, "drawn"), BIAS)
        return result

    def oracle(t: Numbers) -> float:
        return sum(
            predicted(t["given"][i], t["right"][i], t["drawn"][i], MASK[i]) for i in range(N)
        )

    agree(loss_of, oracle, numbers("given", "right", "drawn"))


def test_descriptions() -> None:
    def loss_of(t: Mapping[str, Tensor]) -> Tensor:
        negatives = negatives_of(t, "drawn_words"), negatives_of(t, "drawn_entities")
        return description_losses(t["entity"], t["word"], *negatives, BIAS)

    def oracle(t: Numbers) -> float:
        total = 0.0
        for i in range(N):
            entity, word = t["entity"][i], t["word"][i]
            total += predicted(entity, word, t["drawn_words"][i], MASK[i])
            total += predicted(word, entity, t["drawn_entities"][i], MASK[i])
        return total

    agree(loss_of, oracle, numbers("entity", "word", "drawn_words", "drawn_entities"))


def test_names_stand_in_triples_where_there_are_names() -> None:
    head, tail = torch.tensor([10, 11, 12, 13]), torch.tensor([20, 21, 22, 23])
    triples = name_triples(head, tail, torch.tensor([1, -1, 2, -1]), torch.tensor([-1, 3, 4, -1]))
    kept = [[tuple(p) for p in torch.stack([h[has], t[has]], 1).tolist()] for h, t, has in triples]
    assert kept == [[(1, 20), (2, 22)], [(11, 3), (12, 4)], [(2, 4)]]


def test_a_row_moves_by_its_rate() -> None:
    table = torch.zeros(3, 2)
    rows = RowAdagrad(table)
    rows.step(torch.tensor([2]), torch.tensor([[3.0, -3.0]]), 0.5)
    assert table.tolist() == [[0, 0], [0, 0], [-0.5, 0.5]]
    rows.step(torch.tensor([2]), torch.tensor([[4.0, 4.0]]), 0.5)
    assert torch.allclose(table[2], torch.tensor([-0.9, 0.1]))  # 3, 4, 5


# ---- Xu 2017 ------------------------------------------------------------------------------------
TOKENS = torch.tensor([[0, 2, 1], [3, -1, -1], [-1, -1, -1], [1, 3, -1]])
TRIPLES = torch.tensor([[0, 0, 1], [2, 1, 3], [3, 0, 0]])
OTHERS = torch.tensor([[0, 0, 2], [1, 1, 3], [2, 0, 0]])


def model(encoder: Any) -> Xu2017:
    draws = torch.Generator().manual_seed(5)
    network = Xu2017(TOKENS, n_words=4, n_relations=2, width=4, encoder=encoder, generator=draws)
    torch.nn.init.normal_(network.gates, generator=draws)
    return network.double()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def lstm(p: Numbers, words: list[NDArray[np.float64]]) -> list[list[float]]:
    """Hidden states, gate by gate and number by number."""
    w_in, w_hid = p["lstm.weight_ih_l0"], p["lstm.weight_hh_l0"]
    bias, n = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"], w_hid.shape[1]
    hidden, cell, states = [0.0] * n, [0.0] * n, []
    for word in words:
        raw = [
            sum(w_in[k, j] * word[j] for j in range(len(word)))
            + sum(w_hid[k, j] * hidden[j] for j in range(n))
            + bias[k]
            for k in range(4 * n)
        ]
        for j in range(n):
            i, f, g = (raw[j + part * n] for part in range(3))
            cell[j] = sigmoid(f) * cell[j] + sigmoid(i) * math.tanh(g)
        hidden = [sigmoid(raw[3 * n + j]) * math.tanh(cell[j]) for j in range(n)]
        states.append(hidden)
    return states


def vector(p: Numbers, encoder: str, entity: int, relation: int) -> NDArray[np.float64]:
    words = [p["words"][i] for i in TOKENS[entity].tolist() if i >= 0]
    if not words:
        return p["structure"][entity]
    if encoder == "nbow":
        text = np.sum(words, axis=0)
    else:
        states = np.array(lstm(p, words))
        shares = np.full(len(words), 1 / len(words))
        if encoder == "alstm":
            query = p["of_relation.weight"] @ p["relations"][relation]
            scores = [
                float(p["score.weight"][0] @ np.tanh(p["of_states.weight"] @ s + query))
                for s in states
            ]
            shares = np.exp(scores) / np.sum(np.exp(scores))
        text = sum(share * state for share, state in zip(shares, states, strict=True))
    gate = np.array([sigmoid(x) for x in p["gates"][entity]])
    return gate * p["structure"][entity] + (1 - gate) * text


def energy(p: Numbers, encoder: str, triple: list[int]) -> float:
    h, r, t = triple
    moved = vector(p, encoder, h, r) + p["relations"][r] - vector(p, encoder, t, r)
    return float(sum(x * x for x in moved))


@pytest.mark.parametrize("encoder", ["nbow", "lstm", "alstm"])
def test_structure_and_text(encoder: Any) -> None:
    network = model(encoder)
    space = XuSpace(network, TRIPLES.numpy(), XuSettings(encoder=encoder, margin=50.0), seed=0)
    parameters = {name: t.detach().numpy().copy() for name, t in network.named_parameters()}

    def loss_of(tables: Mapping[str, Tensor]) -> Tensor:
        def losses() -> Tensor:
            return space.losses(TRIPLES, OTHERS)

        return torch.func.functional_call(_Call(network, losses), dict(_prefixed(tables)), ())

    def oracle(p: Numbers) -> float:
        return sum(
            max(0.0, 50.0 + energy(p, encoder, right) - energy(p, encoder, wrong))
            for right, wrong in zip(TRIPLES.tolist(), OTHERS.tolist(), strict=True)
        )

    agree(loss_of, oracle, parameters)


class _Call(torch.nn.Module):
    """A call that reads the parameters of `model`."""

    def __init__(self, model: Xu2017, call: Callable[[], Tensor]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self) -> Tensor:
        return self.call()


def _prefixed(tables: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return {f"model.{name}": table for name, table in tables.items()}


def test_an_entity_without_words_is_its_structure_and_attention_needs_a_relation() -> None:
    network = model("alstm")
    assert torch.equal(
        network.vectors(torch.tensor([2]), network.relations[:1])[0], network.structure[2]
    )
    with pytest.raises(ConfigError, match="give one"):
        network.vectors(torch.tensor([0]))
    with pytest.raises(ConfigError, match="use one of nbow, lstm, alstm"):
        model("gru")
    assert network.entities(TRIPLES).shape == (4, 4)


def test_one_side_of_a_triple_is_drawn_anew() -> None:
    space = XuSpace(model("nbow"), TRIPLES.numpy(), XuSettings(), seed=0)
    many = TRIPLES.repeat(50, 1)
    sampler = Sampler(TRIPLES, 4, 2, space.config)
    others = corrupt(sampler, many, torch.Generator().manual_seed(0))
    assert torch.equal(others[:, 1], many[:, 1])
    assert ((others != many).sum(1) <= 1).all()
    assert (others != many)[:, 0].any()
    assert (others != many)[:, 2].any()
