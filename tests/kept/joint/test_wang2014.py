"""Triples with names in place of entities, and the losses against their sums by hand."""

from __future__ import annotations

import math

import torch

from kept.joint.likelihood import Negatives
from kept.joint.wang2014 import fact_losses, link_losses, name_triples, word_losses


def test_names_take_the_place_of_entities_where_there_are_any() -> None:
    """The first word of the vocabulary is a name like any other; -1 is none."""
    head, tail = torch.tensor([10, 11, 12, 13]), torch.tensor([20, 21, 22, 23])
    head_name, tail_name = torch.tensor([0, -1, 5, -1]), torch.tensor([-1, 0, 0, -1])
    triples = [
        [(int(h), int(t)) for h, t, keep in zip(*parts, strict=True) if keep]
        for parts in name_triples(head, tail, head_name, tail_name)
    ]
    assert triples == [[(0, 20), (5, 22)], [(11, 0), (12, 0)], [(5, 0)]]


def loss(context: float, right: float, wrong: float, bias: float) -> float:
    """Minus the sampled log-likelihood of one number at one place, against one other."""

    def log_sigmoid(z: float) -> float:
        return -math.log1p(math.exp(-z))

    def z(other: float) -> float:
        return bias - (context - other) ** 2 / 2

    return -log_sigmoid(z(right)) - log_sigmoid(-z(wrong))


def one(value: float) -> torch.Tensor:
    return torch.tensor([[value]])


def negatives(value: float, mask: bool = True) -> Negatives:
    return Negatives(torch.tensor([[[value]]]), torch.tensor([[mask]]))


def test_a_fact_is_predicted_from_every_side() -> None:
    head, relation, tail = 0.5, 1.0, 2.0
    negatives_of = {"head": negatives(3.0), "relation": negatives(-1.0), "tail": negatives(0.25)}
    expected = (
        loss(tail - relation, head, 3.0, 2.0)
        + loss(tail - head, relation, -1.0, 2.0)
        + loss(head + relation, tail, 0.25, 2.0)
    )
    losses_ = fact_losses(one(head), one(relation), one(tail), negatives_of, 2.0)
    torch.testing.assert_close(losses_, torch.tensor([expected]))


def test_words_and_links_are_predicted_one_way() -> None:
    for losses in (word_losses, link_losses):
        losses_ = losses(one(0.5), one(1.5), negatives(-2.0), 3.0)
        torch.testing.assert_close(losses_, torch.tensor([loss(0.5, 1.5, -2.0, 3.0)]))
        alone = losses(one(0.5), one(1.5), negatives(-2.0, mask=False), 3.0)
        torch.testing.assert_close(alone, torch.tensor([math.log1p(math.exp(-2.5))]))
