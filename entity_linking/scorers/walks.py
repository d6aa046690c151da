"""Personalised PageRank for many restart vectors at once, on undirected weighted graphs.

Axis legend: node, walk (a restart vector).

Haveliwala (2002): a walker follows an edge with probability `damping`, else starts again at a node
drawn from the walk's restart vector r. The shares of time p solve, up to the scale of p,

    (I - damping W D^-1) p = (1 - damping) r        W symmetric, D its row sums

Where we differ from the usual power iteration: with x = D^-1/2 p the matrix is symmetric and has
its eigenvalues within 1 +- damping, so the Chebyshev semi-iteration (Golub and Varga 1961) applies.
It takes 24 steps to an error of 1e-6 at damping 0.85, where power iteration takes 86.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from entity_linking.errors import LinkingError

DENSE_NODES = 1_000


class Walkable(NamedTuple):
    """An undirected graph made ready for walks."""

    edges: Any
    """D^-1/2 W D^-1/2, symmetric `[node node]`, sparse or dense."""
    root_degree: NDArray[np.floating[Any]]
    """D^1/2, 1 for nodes without edges, `[node]`."""

    @property
    def n_nodes(self) -> int:
        return len(self.root_degree)


def walkable(weights: Any, *, dtype: type[np.floating[Any]] = np.float64) -> Walkable:
    """Prepare symmetric, non-negative `weights`, scipy sparse `[node node]`.

    Small graphs become dense, which is faster; the walks are the same up to rounding.
    """
    degree = np.asarray(weights.sum(axis=1), np.float64).ravel()
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    scale = sparse.diags(1 / root)
    edges = (scale @ weights @ scale).tocsr().astype(dtype)
    if len(root) <= DENSE_NODES:
        edges = edges.toarray()
    return Walkable(edges, root.astype(dtype))


def personalised_pagerank(
    graph: Walkable,
    restarts: NDArray[np.floating[Any]],
    *,
    damping: float = 0.85,
    tolerance: float = 1e-6,
) -> NDArray[np.floating[Any]]:
    """Shares of time `[node walk]` for `restarts [node walk]`, in the type of the graph.

    Linear in the restarts: a column of sum 1 that reaches no node without edges gives a column of
    sum 1. A walker that restarts at a node without edges leaves the walk there, so such columns sum
    to less; divided by their sums they are PageRank with dangling mass sent back to the restart.
    The number of steps follows from `tolerance` alone and every column goes its own way, so what
    stands beside a column does not change it (on dense graphs: up to rounding).
    """
    root = graph.root_degree[:, None]
    source = ((1 - damping) * restarts / root).astype(root.dtype)
    before, now = np.zeros_like(source), source
    omega = 1.0
    for step in range(1, n_steps(damping, tolerance) + 1):
        omega = 1 / (1 - damping**2 / 2) if step == 1 else 1 / (1 - omega * damping**2 / 4)
        following = graph.edges @ now
        following *= damping
        following += source
        following -= before
        following *= omega
        following += before
        before, now = now, following
    shares: NDArray[np.floating[Any]] = now * root
    return shares


def n_steps(damping: float, tolerance: float) -> int:
    """Steps after which the error has fallen to `tolerance` of what it was."""
    if not 0 < damping < 1:
        raise LinkingError(f"damping is {damping}; it is a probability, give more than 0, below 1")
    if not 0 < tolerance < 1:
        raise LinkingError(f"tolerance is {tolerance}; give more than 0 and below 1, such as 1e-6")
    rate = damping / (1 + math.sqrt(1 - damping**2))
    return math.ceil(math.log(tolerance / 2) / math.log(rate))
