"""What the spaces of Wang 2014 and Zhong 2015 read of a graph, and the rows that a step moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from kept.joint.by_distance import Leaf, description_pairs, item_triples, name_items
from kept.joint.likelihood import Negatives, RowAdagrad, closeness, prediction_losses
from kg_loaders import KnowledgeGraph, Text, TextKind, Triple, graph_from_records

WORDS = ["river", "seine", "paris", "in"]


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return graph_from_records(
        [
            Triple("Q1", "in", "Q2"), Triple("Q0", "in", "Q2"),
            Text("Q0", TextKind.LABEL, "Unknown"), Text("Q1", TextKind.LABEL, "Seine"),
            Text("Q2", TextKind.LABEL, "old Paris"),
            Text("Q1", TextKind.DESCRIPTION, "A River in France, in Paris."),
        ]
    )  # fmt: skip


def corpus(entities: list[int]) -> Any:
    return cast(
        Any,
        SimpleNamespace(
            words=WORDS, entities=np.array(entities), n_items=len(WORDS) + len(entities)
        ),
    )


def test_entities_of_triples_are_items_behind_the_words(graph: KnowledgeGraph) -> None:
    triples = item_triples(corpus([0, 1, 2]), graph.triples)
    assert triples.tolist() == [[h + 4, r, t + 4] for h, r, t in graph.triples.tolist()]
    some = item_triples(corpus([1, 2]), graph.triples[1:])
    assert some.tolist() == [[4, 0, 5]]


def test_a_label_of_one_known_word_is_a_name(graph: KnowledgeGraph) -> None:
    names = name_items(corpus([0, 1, 2]), graph)
    assert names.tolist() == [-1, -1, -1, -1, -1, 1, -1]


def test_known_words_of_descriptions(graph: KnowledgeGraph) -> None:
    pairs = description_pairs(corpus([0, 1, 2]), graph)
    assert pairs.tolist() == [[5, 0], [5, 3], [5, 3], [5, 2]]
    assert description_pairs(corpus([0]), graph).shape == (0, 2)


def test_a_leaf_holds_each_row_once() -> None:
    table = torch.arange(10.0).reshape(5, 2)
    leaf = Leaf(table, [torch.tensor([[3, 1], [3, 3]]), torch.tensor([4])])
    assert leaf.ids.tolist() == [1, 3, 4]
    assert leaf(torch.tensor([[4], [1]])).tolist() == [[[8, 9]], [[2, 3]]]
    leaf(torch.tensor([3, 3, 1])).sum().backward()
    assert leaf.states.grad is not None
    assert leaf.states.grad.tolist() == [[1, 1], [2, 2], [0, 0]]
    sampled = leaf.sample_negatives(torch.tensor([[1, 3], [4, 1]]), torch.tensor([3, 3]))
    assert sampled.mask.tolist() == [[True, False], [True, True]]
    assert sampled.vectors.shape == (2, 2, 2)
    assert len(Leaf(table, []).ids) == 0


def test_nearer_is_closer() -> None:
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    assert closeness(a, b, 7.0).tolist() == [7 - 25 / 2]
    near = prediction_losses(a, a, Negatives(b[None], torch.tensor([[True]])), 7.0)
    far = prediction_losses(a, b, Negatives(a[None], torch.tensor([[True]])), 7.0)
    assert float(near) < float(far)


def test_rows_move_by_the_rate_whatever_the_size_of_their_gradient() -> None:
    table = torch.zeros(3, 2)
    optimiser = RowAdagrad(table)
    for size in (1.0, 100.0):
        table.zero_()
        optimiser.squares.zero_()
        optimiser.step(torch.tensor([1]), torch.full((1, 2), size), 0.5)
        assert table.tolist() == [[0, 0], [-0.5, -0.5], [0, 0]]
    optimiser.step(torch.tensor([1]), torch.full((1, 2), 100.0), 0.5)
    assert table[1].tolist() == pytest.approx([-0.5 - 0.5 / 2**0.5] * 2)
