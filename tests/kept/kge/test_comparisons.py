"""Tiles and hand-made gradients against plain autograd in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kept.kge import comparisons
from kept.kge.comparisons import (
    looked_up,
    moduli_sum,
    negative_distances,
    negative_moduli,
    negative_sampled_distances,
    products,
    sampled_products,
)

DRAWN = torch.tensor([[0, 3, 3], [4, 0, 1]])  # a row twice for one query, one twice for two


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def absolute(difference: Tensor) -> Tensor:
    return difference.abs().sum(-1)


def euclidean(difference: Tensor) -> Tensor:
    return torch.linalg.vector_norm(difference, dim=-1)


ALL: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "products": (products, lambda q, c: (q[:, None] * c).sum(-1)),
    "l1": (lambda q, c: negative_distances(q, c, 1), lambda q, c: -absolute(q[:, None] - c)),
    "l2": (lambda q, c: negative_distances(q, c, 2), lambda q, c: -euclidean(q[:, None] - c)),
    "moduli": (negative_moduli, lambda q, c: -moduli_sum(q[:, None] - c)),
}


@pytest.mark.parametrize("n_queries", [1, 20])
@pytest.mark.parametrize("kind", ALL)
def test_all_with_all(kind: str, n_queries: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparisons, "_TILE_COLUMNS", 3)
    monkeypatch.setattr(comparisons, "_TILE_NUMBERS", 40)
    compare, naive = ALL[kind]
    queries, candidates = numbers(n_queries, 4), numbers(11, 4, seed=1)
    expected = naive(queries, candidates)
    with torch.no_grad():
        torch.testing.assert_close(compare(queries, candidates), expected, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(compare(queries, candidates), expected, atol=1e-7, rtol=1e-7)
    assert torch.autograd.gradcheck(compare, (queries, candidates), fast_mode=n_queries > 1)


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 2047, 2048, 5000])
def test_tiles_cover_every_candidate_once_and_none_is_narrow(n: int):
    tiles = comparisons._columns(n)
    assert [i for tile in tiles for i in range(n)[tile]] == list(range(n))
    assert min(tile.stop - tile.start for tile in tiles) >= min(n, 1024)


@pytest.mark.parametrize("kind", ["products", "l2"])
@pytest.mark.parametrize("n_candidates", [7, 300, 1500])
def test_bits_do_not_depend_on_the_batch(kind: str, n_candidates: int):
    compare, _ = ALL[kind]
    with torch.no_grad():
        queries, candidates = numbers(200, 128).float(), numbers(n_candidates, 128, seed=1).float()
        whole = compare(queries, candidates)
        for step in (1, 3, 16, 33):
            parts = [compare(part, candidates) for part in torch.split(queries, step)]
            assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize(
    ("compare", "naive"),
    [
        (sampled_products, lambda q, table: (q[:, None] * table[DRAWN]).sum(-1)),
        (negative_sampled_distances, lambda q, table: -euclidean(q[:, None] - table[DRAWN])),
    ],
    ids=["products", "l2"],
)
def test_each_with_its_own_draws(compare, naive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparisons, "_TILE_NUMBERS", 1)  # one query at a time
    queries, table = numbers(2, 4), numbers(6, 4, seed=1)  # rows 2 and 5 are drawn for none
    found = compare(queries, table, DRAWN)
    torch.testing.assert_close(found, naive(queries, table))
    weights = numbers(2, 3, seed=2).detach()
    ours = torch.autograd.grad((found * weights).sum(), [queries, table])
    plain = torch.autograd.grad((naive(queries, table) * weights).sum(), [queries, table])
    torch.testing.assert_close(ours, plain)
    assert torch.autograd.gradcheck(lambda q, t: compare(q, t, DRAWN), (queries, table))


def test_a_look_up_completes_the_gradient_of_what_was_compared():
    table, ids = numbers(6, 4), torch.tensor([[0, 3, 3], [4, 0, 1]])

    def compare(table: Tensor) -> Tensor:
        rows, again = looked_up(table, ids)
        return sampled_products(rows[:, 0], again, DRAWN) + (rows[:, 1] @ again.T)[:, :3]

    expected = (table[ids[:, 0], None] * table[DRAWN]).sum(-1) + (table[ids[:, 1]] @ table.T)[:, :3]
    torch.testing.assert_close(compare(table), expected)
    assert torch.autograd.gradcheck(compare, (table,))


def test_a_distance_of_zero_has_no_gradient():
    table = numbers(3, 4)
    queries = table.detach()[:1].clone().requires_grad_()
    negative_sampled_distances(queries, table, torch.tensor([[0]])).sum().backward()
    assert queries.grad is not None
    assert not queries.grad.any()
    assert table.grad is not None
    assert not table.grad.any()
