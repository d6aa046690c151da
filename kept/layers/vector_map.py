"""A linear map from one space of vectors into another, fitted on pairs that both hold.

Axis legend: pair, source, target (the widths of the two spaces).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def least_squares_map(
    source: Float[Tensor, "pair source"],
    target: Float[Tensor, "pair target"],
    weights: Float[Tensor, " pair"] | None = None,
) -> Float[Tensor, "source target"]:
    """The W of least norm among those that minimise the (weighted) sum of |xW - y|^2.

    No bias and no centring, as Poerner et al. 2020 (section 3.1). Solved in float64: with fewer
    pairs than columns the normal equations would be singular.
    """
    scale = 1.0 if weights is None else weights.double().sqrt()[:, None]
    solved = torch.linalg.pinv(source.double() * scale) @ (target.double() * scale)
    return solved.to(target.dtype)


def orthogonal_map(
    source: Float[Tensor, "pair source"], target: Float[Tensor, "pair target"]
) -> Float[Tensor, "source target"]:
    """The W with orthonormal rows that minimises the sum of |xW - y|^2 (Procrustes).

    The source must not be wider than the target: it is filled up with zeros, so that only the rows
    that are returned are ever read.
    """
    wide = F.pad(source.double(), (0, target.shape[1] - source.shape[1]))
    left, _, right = torch.linalg.svd(wide.T @ target.double())
    return (left @ right)[: source.shape[1]].to(target.dtype)
