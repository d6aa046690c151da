"""Dense rows: the same states and gradients as with padding, computed over fewer places."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from kept import hosts
from kept.batches import Visibility
from kept.layers.packing import DenseRows, dense_rows
from tests.kept.tiny_hosts import FAMILIES, tiny_host


def masks(lengths: list[int], n_nodes: int, *, scattered: bool) -> tuple[Tensor, Tensor]:
    """A node mask and who sees whom among the real nodes; pads see themselves."""
    draws = np.random.default_rng(len(lengths))
    real = torch.zeros(len(lengths), n_nodes, dtype=torch.bool)
    for row, length in enumerate(lengths):
        nodes = draws.permutation(n_nodes)[:length] if scattered else np.arange(length)
        real[row, nodes] = True
    seen = torch.from_numpy(draws.random((len(lengths), n_nodes, n_nodes)) < 0.7)
    visible = seen & real[:, :, None] & real[:, None, :]
    return real, visible | torch.eye(n_nodes, dtype=torch.bool)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_those_with_padding(family: str, scattered: bool) -> None:
    real, visible = masks([3, 17, 5, 8, 1, 6], 20, scattered=scattered)
    results = []
    for node_mask in (None, real):
        host = tiny_host(family).double()
        torch.manual_seed(1)
        hidden = torch.randn(*real.shape, 16, dtype=torch.float64).requires_grad_()
        places = torch.arange(20).repeat(6, 1)
        states = hosts.run(host, hidden, Visibility(visible), node_mask, positions=places)
        torch.stack([s[real].square().sum() for s in states[1:]]).sum().backward()
        weights = [p.grad for p in host.parameters() if p.grad is not None]
        results.append(([s[real] for s in states], [hidden.grad[real], *weights]))
        if node_mask is not None:
            assert all(not s[~real].any() for s in states[1:])
    rows = dense_rows(real)
    assert (rows.n_rows, rows.n_places) == (3, 17)
    for one, other in zip(*results, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10)


def test_every_real_node_comes_back_once() -> None:
    draws = np.random.default_rng(0)
    for trial in range(30):
        lengths = draws.integers(1, 15, size=int(draws.integers(2, 12))).tolist()
        real, visible = masks(lengths, 30, scattered=trial % 2 == 0)
        rows = dense_rows(real)
        values = torch.from_numpy(draws.random((*real.shape, 2))) + 1
        packed = rows.pack(values)
        assert packed.shape == (rows.n_rows, max(lengths), 2)
        assert packed.shape[0] * packed.shape[1] < real.numel()
        assert rows.unpack(packed)[real].equal(values[real])
        assert not rows.unpack(packed)[~real].any()
        ids = torch.arange(real.numel()).view_as(real)
        sources, seen = rows.pack(ids), rows.pack_visibility(Visibility(visible), real).mask
        assert seen.diagonal(dim1=1, dim2=2).all()
        pairs = {(int(sources[r, i]), int(sources[r, j])) for r, i, j in seen.nonzero().tolist()}
        wanted = {
            (int(ids[b, i]), int(ids[b, j])) for b, i, j in visible.nonzero().tolist() if real[b, i]
        }
        assert pairs - {(0, 0)} == wanted - {(0, 0)}


def test_full_batches_and_empty_samples_stay_as_they_are() -> None:
    assert dense_rows(torch.ones(3, 5, dtype=torch.bool)) is None
    assert dense_rows(torch.tensor([[True, True], [False, False]])) is None
    almost, _ = masks([20, 19, 19], 20, scattered=False)
    assert dense_rows(almost) is None
    repeats, _ = masks([11, 11, 11], 20, scattered=False)
    assert repr(dense_rows(repeats)) == "DenseRows((3, 20) in 3 rows of 11)"
    assert isinstance(dense_rows(repeats), DenseRows)
