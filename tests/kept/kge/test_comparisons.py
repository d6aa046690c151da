"""Tiles and hand-made gradients against plain autograd in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kept.evaluation.ranking import Filter, rank
from kept.evaluation.ranks.counting import Comparable
from kept.kge import comparisons, make_scorer
from kept.kge.comparisons import (
    moduli_sum,
    negative_distances,
    negative_moduli,
    negative_sampled_distances,
    products,
    rows_of_all,
    rows_with_summed_gradient,
    sampled_products,
)
from kept.layers import products as matrix_products

CANDIDATES = torch.tensor([[0, 3, 3], [4, 0, 1]])  # a row twice for one query, one twice for two


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
        (sampled_products, lambda q, table: (q[:, None] * table[CANDIDATES]).sum(-1)),
        (negative_sampled_distances, lambda q, table: -euclidean(q[:, None] - table[CANDIDATES])),
    ],
    ids=["products", "l2"],
)
def test_each_with_its_own_draws(compare, naive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparisons, "_TILE_NUMBERS", 1)  # one query at a time
    queries, table = numbers(2, 4), numbers(6, 4, seed=1)  # rows 2 and 5 are drawn for none
    scores = compare(queries, table, CANDIDATES)
    torch.testing.assert_close(scores, naive(queries, table))
    weights = numbers(2, 3, seed=2).detach()
    ours = torch.autograd.grad((scores * weights).sum(), [queries, table])
    plain = torch.autograd.grad((naive(queries, table) * weights).sum(), [queries, table])
    torch.testing.assert_close(ours, plain)
    assert torch.autograd.gradcheck(lambda q, t: compare(q, t, CANDIDATES), (queries, table))


def test_a_look_up_completes_the_gradient_of_what_was_compared():
    table, ids = numbers(6, 4), torch.tensor([[0, 3, 3], [4, 0, 1]])

    def compare(table: Tensor) -> Tensor:
        rows, again = rows_with_summed_gradient(table, ids)
        return sampled_products(rows[:, 0], again, CANDIDATES) + (rows[:, 1] @ again.T)[:, :3]

    expected = (table[ids[:, 0], None] * table[CANDIDATES]).sum(-1) + (table[ids[:, 1]] @ table.T)[
        :, :3
    ]
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_which_squares_share_a_root(dtype: torch.dtype):
    """The bounds hold what has the root, and what follows them has not."""
    tiny, huge = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).max
    generator = torch.Generator().manual_seed(0)
    uniform = torch.exp2(60 * torch.rand(3000, generator=generator, dtype=dtype) - 30)
    ends = torch.tensor([-1.0, -tiny, -0.0, 0.0, tiny / 4, tiny, 1.0, 2.0, 4.0, huge, torch.inf])
    squares = torch.cat([ends.to(dtype), uniform, torch.nextafter(uniform, uniform + 1)])
    low, high = comparisons._with_the_same_root(-squares)

    def root(values: Tensor) -> Tensor:
        return (-values).clamp(min=0).sqrt()

    assert torch.equal(root(low), root(squares.neg()))
    assert torch.equal(root(high), root(squares.neg()))
    assert ((low <= -squares) & (-squares <= high)).all()
    infinite = torch.full_like(low, torch.inf)
    below, above = torch.nextafter(low, -infinite), torch.nextafter(high, infinite)
    assert (root(below)[below != low] > root(low)[below != low]).all()
    assert (root(above)[above != high] < root(high)[above != high]).all()
    assert (low < high).float().mean() > 0.5  # most have several


def test_rows_of_all_are_looked_up_in_one_table_of_gradients() -> None:
    """With ids that repeat within one look-up and between them."""
    ids = [torch.tensor(some) for some in ([[0, 3], [3, 1]], [3, 3, 4], [1, 3])]
    table = numbers(6, 4)

    def looked_up(table: Tensor) -> tuple[Tensor, ...]:
        return rows_of_all(table, *ids)

    for rows, some in zip(looked_up(table), ids, strict=True):
        assert torch.equal(rows, table[some])
    assert torch.autograd.gradcheck(looked_up, (table,))


class ByScores:
    """Compares by the scores, of the same queries at once: of others double precision may round
    otherwise."""

    def __init__(self, scorer: Any) -> None:
        self.scorer = scorer

    def comparer(self, direction: Any) -> Any:
        return lambda triples: Comparable(self.scorer.scores(direction, triples))


@pytest.mark.parametrize(("name", "width"), [("transe", 6), ("rotate", 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), levels=st.sampled_from([1, 2, 5, 1000]), offset=st.booleans())
def test_ranks_by_squares_are_ranks_by_distances(
    name: str, width: int, dtype: torch.dtype, seed: int, levels: int, offset: bool
):
    """On few levels many distances tie, some by rounding alone, and many are 0 or below before it
    is cut off; far from 0 rounding joins still more.
    """
    sizes = {"n_entities": 150, "n_relations": 3}
    generator = torch.Generator().manual_seed(seed)
    scorer = make_scorer(name, **sizes, width=width, generator=generator, norm=2).to(dtype)
    with torch.no_grad():
        shape = scorer.entities.shape
        table = torch.randint(levels, shape, generator=generator).to(dtype) / 7
        scorer.entities.copy_(table + 100 * offset)
        scorer.relations.mul_(torch.randint(2, scorer.relations.shape, generator=generator))
    draws = np.random.default_rng(seed)
    known, tested = (draws.integers(0, [150, 3, 150], (n, 3)) for n in (300, 60))
    by_squares, by_distances = (
        rank(compared, tested, filter=Filter({"known": known}, **sizes), ties="realistic",
             directions=("head", "relation", "tail"), candidates="all")
        for compared in (scorer, ByScores(scorer))
    )  # fmt: skip
    np.testing.assert_array_equal(by_squares.counts.n_greater, by_distances.counts.n_greater)
    np.testing.assert_array_equal(by_squares.counts.n_equal, by_distances.counts.n_equal)
    with torch.no_grad():
        triples = torch.from_numpy(tested)
        values = scorer.comparer("tail")(triples).values
        assert torch.equal(-(-values).clamp(min=0).sqrt(), scorer.scores("tail", triples))


@pytest.mark.parametrize("n_rows", [1, 300, 1 << 16, (1 << 16) + 1])
def test_sampled_ids_are_ordered_as_a_stable_sort_does(n_rows: int) -> None:
    """So that sums of gradients keep their bits, whichever sort it is."""
    ids = torch.randint(n_rows, (2000,), generator=torch.Generator().manual_seed(n_rows))
    ids[:2] = n_rows - 1
    assert torch.equal(comparisons._in_order(ids, n_rows), ids.argsort(stable=True))


@pytest.mark.skipif(not matrix_products.has_onednn(), reason="this torch was built without oneDNN")
@pytest.mark.parametrize("width", [64, 200])
@pytest.mark.parametrize("way", ["torch", "onednn"])
def test_scores_by_either_library(way: matrix_products.Way, width: int) -> None:
    """The same scores up to rounding; their bits depend neither on the batch nor on the place."""
    draws = torch.Generator().manual_seed(0)
    queries, table = (torch.randn(n, width, generator=draws) for n in (300, 2100))
    table[[5, 1023, 1500, 2099]] = table[0].clone()
    exact = queries.double() @ table.double().T
    with matrix_products.using(way):
        scores = products(queries, table)
        distances = negative_distances(queries, table, 2)
        for n in (1, 16, 17, 200):
            assert torch.equal(products(queries[:n], table), scores[:n])
            assert torch.equal(negative_distances(queries[:n], table, 2), distances[:n])
    assert torch.allclose(scores.double(), exact, atol=1e-4)
    assert torch.allclose(distances, -torch.cdist(queries, table), atol=1e-3)
    for columns in (scores, distances):
        assert (columns[:, [5, 1023, 1500, 2099]] == columns[:, :1]).all()
