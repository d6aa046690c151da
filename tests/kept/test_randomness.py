"""Random numbers by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kept.randomness import generator, torch_generator, torch_seed


def test_same_key_same_draws_other_key_other_draws() -> None:
    keys = [(1, "a"), (1, "b"), (2, "a"), (1, "a", 0), (1, "a", 1), (1, 1), (1, "1"), (11,), (1, 2)]
    draws = [tuple(generator(*key).integers(2**62, size=3)) for key in keys]
    assert draws == [tuple(generator(*key).integers(2**62, size=3)) for key in keys]
    assert len(dict.fromkeys(draws)) == len(keys)


def test_draws_never_change_between_versions() -> None:
    """Checkpoints of older versions resume on these numbers."""
    assert generator(7, "mask", 3, 12).integers(1000, size=4).tolist() == [471, 116, 969, 419]
    assert torch_seed(7, "step", 3, 0) == 1264836734477532565


def test_numpy_integers_are_integers() -> None:
    assert generator(1, np.int64(4)).random() == generator(1, 4).random()  # type: ignore[arg-type]


def test_other_key_types_are_refused() -> None:
    with pytest.raises(TypeError):
        generator(1, 0.5)  # type: ignore[arg-type]


def test_torch_generator_is_its_own() -> None:
    before = torch.get_rng_state()
    first = torch.rand(3, generator=torch_generator(1, "x"))
    assert torch.equal(first, torch.rand(3, generator=torch_generator(1, "x")))
    assert torch.equal(before, torch.get_rng_state())
