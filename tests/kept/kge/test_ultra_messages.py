"""Sums of messages by groups: those of loops over edges, with gradients, in every awkward graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kept.kge.ultra.graphs import Edges
from kept.kge.ultra.messages import summed_by_question
from kept.kge.ultra.networks import ConditionalLayer, LayerOptions

GRAPHS = {
    "repeats and a loop": [[0, 0, 1], [0, 0, 1], [2, 1, 2], [1, 0, 0], [0, 1, 1]],
    "nodes without an edge": [[4, 2, 6]],
    "no edge": [],
}


def by_loops(states: Tensor, vectors: Tensor, edges: Edges, to: int) -> Tensor:
    total = torch.zeros_like(states)
    for *ends, kind in zip(*edges.ends.tolist(), edges.types.tolist(), strict=True):
        total[:, ends[to]] += states[:, ends[1 - to]] * vectors[:, kind]
    return total


@pytest.mark.parametrize("to", [0, 1])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("numbers", [1, 1 << 17])
def test_sums_are_those_of_loops(
    name: str, to: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in blocks of one group and one question at a time."""
    monkeypatch.setattr("kept.kge.ultra.messages.CACHE_NUMBERS", numbers)
    edges = Edges.of(GRAPHS[name], n_entities=8, n_relations=3)
    draws = torch.Generator().manual_seed(0)
    states = torch.randn(3, 8, 4, generator=draws, dtype=torch.float64, requires_grad=True)
    vectors = torch.randn(3, 6, 4, generator=draws, dtype=torch.float64, requires_grad=True)

    def summed(some: Tensor, kinds: Tensor) -> Tensor:
        sums: Tensor = summed_by_question(some, kinds, edges.messages(to))
        return sums

    torch.testing.assert_close(summed(states, vectors), by_loops(states, vectors, edges, to))
    assert torch.autograd.gradcheck(summed, (states, vectors))


def test_blocks_have_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kept.kge.ultra.messages.CACHE_NUMBERS", 8)
    messages = Edges.of([[0, i % 3, i] for i in range(9)], n_entities=12, n_relations=3).messages(0)
    blocks = messages.blocks(4)
    assert len(blocks) > 3
    sizes = (len(messages.of_row) - 1, len(messages.vectors), len(messages.inputs))
    for name, size in zip(("rows", "groups", "messages"), sizes, strict=True):
        parts = [getattr(block, name) for block in blocks]
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(size))


def test_a_layer_gathers_as_its_general_path_does() -> None:
    """Edges that weigh one each take the path of all other kinds of message."""
    edges = Edges.of([[0, 0, 1], [3, 1, 2], [3, 0, 2]], n_entities=5, n_relations=2)
    ones = torch.ones(len(edges.types), dtype=torch.float64)
    weighed = Edges(edges.ends, edges.types, edges.n_nodes, edges.n_types, ones)
    layer = ConditionalLayer(LayerOptions(width=4), edges.n_types).double()
    states, boundary = torch.rand(2, 3, 5, 4, dtype=torch.float64)
    vectors = torch.rand(3, 4, 4, dtype=torch.float64)
    fast, general = (layer.aggregate(states, vectors, boundary, one) for one in (edges, weighed))
    torch.testing.assert_close(fast, general)
