"""A run of the suite repeats the last one: what `tests/conftest.py` does about random draws."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def shared() -> torch.Tensor:
    return torch.rand(3)


def seeded() -> torch.Tensor:
    return torch.rand(3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("n_draws", [1, 5])
def test_torch_is_seeded_before_every_test(n_draws: int) -> None:
    assert torch.equal(torch.rand(3), seeded())
    torch.rand(n_draws)


def test_torch_is_seeded_before_what_tests_share(shared: torch.Tensor) -> None:
    assert torch.equal(shared, seeded())


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_threads_of_torch_are_reset_before_every_test(n_threads: int) -> None:
    """One for each worker: a command that is called in this process may leave it with more."""
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
    torch.set_num_threads(n_threads)


def test_hypothesis_tries_the_same_examples(request: pytest.FixtureRequest) -> None:
    def tried() -> list[int]:
        numbers: list[int] = []

        @settings(max_examples=20)
        @given(st.integers())
        def collect(number: int) -> None:
            numbers.append(number)

        collect()
        return numbers

    is_long = request.config.getoption("--hypothesis-profile") == "long"
    assert (tried() == tried()) != is_long
