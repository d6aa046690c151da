"""Likelihoods by distance, trained with negative sampling: what Wang 2014 and Zhong 2015 share.

`z(a, b) = bias - |a - b|^2 / 2`, and `Pr(b | a) = exp z(a, b) / sum over b' of exp z(a, b')`, of
which negative sampling keeps `log s(z(a, b)) + sum over drawn b' of log s(-z(a, b'))`.

Axis legend: pair, negative, width, row (of a table).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

BIAS = 7.0
"""Wang et al. 2014, section 3.1: a constant that keeps the numbers in range."""


def closeness(first: Tensor, second: Tensor, bias: float = BIAS) -> Tensor:
    """`z` of vectors that broadcast against each other, `[... width] -> [...]`."""
    return bias - (first - second).square().sum(-1) / 2


class Negatives(NamedTuple):
    """Negatives `[pair negative width]`, and which of them count, bool `[pair negative]`."""

    vectors: Tensor
    mask: Tensor


def prediction_losses(
    contexts: Tensor, right: Tensor, negatives: Negatives, bias: float = BIAS
) -> Tensor:
    """Minus the sampled log-likelihood of `right` where `contexts` is, `[pair width] -> [pair]`."""
    against = logsigmoid(-closeness(contexts[:, None], negatives.vectors, bias)) * negatives.mask
    return -logsigmoid(closeness(contexts, right, bias)) - against.sum(1)


class RowAdagrad:
    """Adagrad with one rate a row, for tables of which a step reads few rows.

    Duchi et al. 2011, with the mean of a row's squared gradients in place of each: however often a
    row is read in a step, it moves by at most about the learning rate in each number.
    """

    def __init__(self, table: Tensor) -> None:
        self.table, self.squares = table, torch.zeros(len(table))

    @torch.no_grad()
    def step(self, ids: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the rows `ids` (distinct) against `gradient [row width]`."""
        self.squares[ids] += gradient.square().mean(1)
        scale = rate * self.squares[ids].clamp_min(1e-12).rsqrt()
        self.table[ids] -= scale[:, None] * gradient
