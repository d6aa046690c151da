"""A linear probe: ridge regression of classes' indicators on standardised states.

Axis legend: item, other (items held out), width, class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

PENALTIES = (1e-3, 1e-2, 1e-1)


@dataclass(frozen=True)
class LinearProbe:
    """A fitted probe; states that did not differ in training have no weights."""

    mean: Float[Tensor, " width"]
    spread: Float[Tensor, " width"]
    weights: Float[Tensor, "width class"]
    shares: Float[Tensor, " class"]

    def classes(self, states: Float[Tensor, "item width"]) -> Int[Tensor, " item"]:
        """The class with the highest score of each item."""
        scores = ((states - self.mean) / self.spread).double() @ self.weights + self.shares
        return scores.argmax(1)


def fit(
    states: Float[Tensor, "item width"], classes: Int[Tensor, " item"], *, penalty: float
) -> LinearProbe:
    """Fit a probe; `penalty` times the number of items is added to the diagonal.

    >>> states = torch.eye(4).repeat(4, 1)
    >>> probe = fit(states, torch.arange(16) % 4, penalty=0.1)
    >>> probe.classes(torch.eye(4)).tolist()
    [0, 1, 2, 3]
    """
    mean, spread = states.mean(0), states.std(0)
    varies = spread > 1e-6 * states.abs().max().clamp_min(1e-12)
    design = ((states - mean) / spread)[:, varies].double()
    indicators = one_hot(classes, int(classes.max()) + 1).double()
    shares = indicators.mean(0)
    ridge = penalty * len(design)
    if len(design) <= design.shape[1]:
        inner = design @ design.T + ridge * torch.eye(len(design), dtype=design.dtype)
        solved = design.T @ torch.linalg.solve(inner, indicators - shares)
    else:
        inner = design.T @ design + ridge * torch.eye(design.shape[1], dtype=design.dtype)
        solved = torch.linalg.solve(inner, design.T @ (indicators - shares))
    weights = torch.zeros(states.shape[1], indicators.shape[1], dtype=torch.float64)
    weights[varies] = solved
    return LinearProbe(mean, torch.where(varies, spread, 1.0), weights, shares)


def fit_on_heldout(
    states: Float[Tensor, "item width"],
    classes: Int[Tensor, " item"],
    heldout: tuple[Float[Tensor, "other width"], Int[Tensor, " other"]],
    *,
    penalties: Sequence[float] = PENALTIES,
) -> tuple[LinearProbe, float]:
    """The probe, and the penalty, of the highest accuracy on `heldout`; the first of equals."""
    best: tuple[float, LinearProbe, float] | None = None
    for penalty in penalties:
        probe = fit(states, classes, penalty=penalty)
        accuracy = float((probe.classes(heldout[0]) == heldout[1]).double().mean())
        if best is None or accuracy > best[0]:
            best = accuracy, probe, penalty
    assert best is not None, "no penalty"
    return best[1:]
