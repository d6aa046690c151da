"""The byte budget bounds the memory of a ranking and changes nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from kept.evaluation.ranking import Filter, rank
from kept.kge import FORMULAS, Scorer, make_scorer

DIRECTIONS = ("head", "relation", "tail")
CASES = [*((name, None) for name in sorted(FORMULAS)), ("transe", 1), ("rotate", 2)]


def make(name: str, norm: Any, n_entities: int, n_relations: int, width: int) -> Scorer:
    return make_scorer(name, n_entities=n_entities, n_relations=n_relations, width=width,
                       generator=torch.Generator().manual_seed(0), norm=norm)  # fmt: skip


def draw(seed: int, n: int, n_entities: int, n_relations: int) -> np.ndarray:
    sizes = [n_entities, n_relations, n_entities]
    return np.random.default_rng(seed).integers(0, sizes, (n, 3))


@pytest.mark.parametrize(("name", "norm"), CASES)
@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    budget=st.integers(1, 100_000),
    n_entities=st.integers(2, 80),
    subset=st.booleans(),
)
def test_ranks_do_not_depend_on_the_budget(name, norm, seed, budget, n_entities, subset):
    scorer = make(name, norm, n_entities, 5, 8)
    known = Filter({"known": draw(seed, 60, n_entities, 5)}, n_entities=n_entities, n_relations=5)
    tested = draw(seed + 1, 40, n_entities, 5)
    candidates = np.arange(0, n_entities, 2) if subset else "all"
    whole, blocks = (
        rank(scorer, tested, filter=known, ties="realistic", directions=DIRECTIONS,
             candidates=candidates, byte_budget=given_budget)
        for given_budget in (1 << 30, budget)
    )  # fmt: skip
    np.testing.assert_array_equal(whole.counts.n_greater, blocks.counts.n_greater)
    np.testing.assert_array_equal(whole.counts.n_equal, blocks.counts.n_equal)


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that any operation gave."""

    n_bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.n_bytes = max(self.n_bytes, tensor.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize(("name", "norm"), CASES)
def test_no_tensor_outgrows_the_budget(name: str, norm: Any):
    n_entities, n_relations, width = 4000, 40, 16
    scorer = make(name, norm, n_entities, n_relations, width)
    table = 4 * n_entities * width  # a look-up gives the parameter itself
    known = Filter({"a": draw(0, 500, n_entities, n_relations)}, n_entities=n_entities,
                   n_relations=n_relations)  # fmt: skip
    sizes = {}
    for rows in (300, 40):
        with Largest() as largest:
            rank(
                scorer, draw(1, 70, n_entities, n_relations), filter=known, ties="realistic",
                directions=DIRECTIONS, candidates="all", byte_budget=4 * rows * n_entities,
            )  # fmt: skip
        sizes[rows] = largest.n_bytes
    # all 70 questions at once, then a block; what compares them stays within 1 MiB
    assert sizes[300] <= max(4 * 70 * n_entities, 1 << 20)
    assert table < sizes[40] <= max(4 * 40 * n_entities, 1 << 20)
