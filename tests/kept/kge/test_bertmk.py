"""BERT-MK's subgraphs, states and losses against loops; what it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from kept.errors import ConfigError
from kept.kge.gnn.bertmk import (
    NONE,
    KGTransformer,
    Subgraphs,
    contextual,
    reconstruction_losses,
)

TRIPLES = np.array([(0, 0, 1), (2, 1, 1), (3, 0, 1), (1, 1, 4), (1, 0, 2), (4, 0, 4)])
N_ENTITIES, N_RELATIONS, WIDTH = 6, 2, 4


def subgraphs(n_each: int = 2) -> Subgraphs:
    return Subgraphs(TRIPLES, n_entities=N_ENTITIES, n_each=n_each)


def model(n_layers: int = 2, n_heads: int = 2) -> KGTransformer:
    draws = torch.Generator().manual_seed(2)
    tables = (torch.randn(n, WIDTH, generator=draws) for n in (N_ENTITIES, N_RELATIONS))
    transformer = KGTransformer(*tables, n_layers=n_layers, n_heads=n_heads, generator=draws)
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=draws)
    return transformer.double()


def test_a_sequence_is_what_comes_in_the_entity_and_what_goes_out() -> None:
    sampler, draws = subgraphs(3), torch.Generator().manual_seed(0)
    r = N_ENTITIES
    expected = {
        1: [0, r, 2, r + 1, 3, r, 1, r + 1, 4, r, 2, NONE, NONE],
        4: [1, r + 1, 4, r, NONE, NONE, 4, r, 4, NONE, NONE, NONE, NONE],
        5: [NONE] * 6 + [5] + [NONE] * 6,
    }
    nodes = sampler.nodes(torch.tensor(list(expected)), draws).tolist()
    assert nodes == list(expected.values())
    assert sampler.slots.tolist() == [
        [0, 1, 6],
        [2, 3, 6],
        [4, 5, 6],
        [6, 7, 8],
        [6, 9, 10],
        [6, 11, 12],
    ]
    pairs = {(a, b) for h, r, t in sampler.slots.tolist() for a, b in ((h, r), (r, t))}
    pairs |= {(b, a) for a, b in pairs} | {(i, i) for i in range(13)}
    assert {tuple(p) for p in sampler.neighbours.nonzero().tolist()} == pairs


def test_of_too_many_triples_each_is_drawn_as_often() -> None:
    sampler, draws = subgraphs(2), torch.Generator().manual_seed(0)
    heads = [tuple(sorted(sampler.nodes(torch.tensor([1]), draws)[0, [0, 2]].tolist()))
             for _ in range(600)]  # fmt: skip
    counts = {pair: heads.count(pair) for pair in set(heads)}
    assert counts.keys() == {(0, 2), (0, 3), (2, 3)}
    assert min(counts.values()) > 150


def norm(row: list[float], scale: np.ndarray, shift: np.ndarray) -> list[float]:
    mean = sum(row) / len(row)
    spread = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-5)
    return [(x - mean) / spread * s + t for x, s, t in zip(row, scale, shift, strict=True)]


def affine(p: dict[str, np.ndarray], name: str, row: list[float]) -> list[float]:
    weight, bias = p[f"{name}.weight"], p[f"{name}.bias"]
    return [sum(w * x for w, x in zip(line, row, strict=True)) + b
            for line, b in zip(weight.tolist(), bias.tolist(), strict=True)]  # fmt: skip


def states_by_loops(
    p: dict[str, np.ndarray], nodes: list[int], edges: set[tuple[int, int]], n_heads: int
) -> list[list[float]]:
    """Node by node, head by head; empty places see themselves."""
    states = [p["nodes"][max(i, 0)].tolist() for i in nodes]
    size = WIDTH // n_heads
    for number in range(2):
        at = f"layers.{number}"
        whole = [affine(p, f"{at}.inner", row) for row in states]
        after = []
        for i, row in enumerate(states):
            there = {j for j, node in enumerate(nodes) if node != NONE and nodes[i] != NONE}
            seen = [j for j in range(len(nodes)) if j == i or (j in there and (i, j) in edges)]
            read: list[float] = []
            for head in range(n_heads):
                part = slice(head * size, (head + 1) * size)
                query = whole[i][:WIDTH][part]
                keys = [whole[j][WIDTH : 2 * WIDTH][part] for j in seen]
                products = [sum(a * b for a, b in zip(query, k, strict=True)) for k in keys]
                scores = [math.exp(product / math.sqrt(size)) for product in products]
                values = [whole[j][2 * WIDTH :][part] for j in seen]
                read += [sum(s * v[k] for s, v in zip(scores, values, strict=True)) / sum(scores)
                         for k in range(size)]  # fmt: skip
            added = [x + y for x, y in zip(row, affine(p, f"{at}.outer", read), strict=True)]
            mid = norm(added, p[f"{at}.norms.0.weight"], p[f"{at}.norms.0.bias"])
            wide = [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in affine(p, f"{at}.wide", mid)]
            added = [x + y for x, y in zip(mid, affine(p, f"{at}.narrow", wide), strict=True)]
            after.append(norm(added, p[f"{at}.norms.1.weight"], p[f"{at}.norms.1.bias"]))
        states = after
    return states


TAIL = torch.tensor([[True, False, True, False], [False, True, True, False]])
SHUFFLED = torch.tensor([[1, 1, 0, 1], [0, 1, 0, 0]])


def loss_by_loops(p: dict[str, np.ndarray], nodes: torch.Tensor, sampler: Subgraphs) -> float:
    edges = {tuple(pair) for pair in sampler.neighbours.nonzero().tolist()}
    states = [states_by_loops(p, row, edges, 2) for row in nodes.tolist()]
    total = 0.0
    for b, row in enumerate(nodes.tolist()):
        for s, (h, r, t) in enumerate(sampler.slots.tolist()):
            if NONE in (row[h], row[r], row[t]):
                continue
            head, relation, tail = states[b][h], states[b][r], states[b][t]
            other = states[int(SHUFFLED[b, s])][sampler.centre]
            wrong = (head, relation, other) if TAIL[b, s] else (other, relation, tail)
            far = [math.sqrt(sum((x + y - z) ** 2 for x, y, z in zip(*three, strict=True)))
                   for three in ((head, relation, tail), wrong)]  # fmt: skip
            total += max(0.0, 9.0 + far[0] - far[1])
    return total


def test_states_and_losses_are_those_of_loops() -> None:
    """In float64; the gradient of every parameter against central differences of the loops."""
    sampler, network = subgraphs(2), model()
    nodes = sampler.nodes(torch.tensor([4, 2]), torch.Generator().manual_seed(0))
    states = network(nodes, sampler.neighbours)
    losses = reconstruction_losses(states, nodes, sampler, TAIL, SHUFFLED, 9.0).sum()
    losses.backward()
    values = {name: t.detach().numpy().copy() for name, t in network.named_parameters()}
    edges = {tuple(pair) for pair in sampler.neighbours.nonzero().tolist()}
    for row, ours in zip(nodes.tolist(), states.detach().numpy(), strict=True):
        np.testing.assert_allclose(ours, states_by_loops(values, row, edges, 2), atol=1e-12)
    assert float(losses.detach()) == pytest.approx(loss_by_loops(values, nodes, sampler), rel=1e-12)
    draws = np.random.default_rng(0)
    for name, parameter in network.named_parameters():
        for _ in range(3):
            index = tuple(int(draws.integers(n)) for n in parameter.shape)
            sides = []
            for shift in (1e-5, -1e-5):
                moved = {key: value.copy() for key, value in values.items()}
                moved[name][index] += shift
                sides.append(loss_by_loops(moved, nodes, sampler))
            assert parameter.grad is not None
            expected = (sides[0] - sides[1]) / 2e-5
            assert float(parameter.grad[index]) == pytest.approx(expected, abs=1e-6), (name, index)


def test_nodes_two_triples_away_are_not_seen_and_neighbours_are() -> None:
    sampler, network = subgraphs(3), model()
    nodes = sampler.nodes(torch.tensor([1]), torch.Generator().manual_seed(0))
    network(nodes, sampler.neighbours)[0, sampler.centre].sum().backward()
    moved = network.nodes.grad
    assert moved is not None
    assert moved[[0, 2, 3, 4]].abs().sum(1).min() > 0
    assert moved[5].abs().sum() == 0


def test_vectors_are_the_states_in_the_middle() -> None:
    sampler, network = subgraphs(4), model().float()
    scorer = contextual(network, sampler, N_RELATIONS, WIDTH, at_once=2)
    nodes = sampler.nodes(torch.arange(N_ENTITIES), torch.Generator().manual_seed(0))
    states = network(nodes, sampler.neighbours)
    assert torch.allclose(scorer.entities, states[:, sampler.centre], atol=1e-6)
    mean = states[nodes == N_ENTITIES + 1].mean(0)
    assert torch.allclose(scorer.relations[1], mean, atol=1e-6)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="width 4 is not a multiple of 3 heads"):
        model(n_heads=3)
