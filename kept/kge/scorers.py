"""Triple scorers: TransE, RESCAL, DistMult, ComplEx, RotatE behind one protocol; higher is better.

Many candidates are scored as matrix products where the formula allows. Complex vectors are stored
as [real parts, imaginary parts].

Axis legend: batch, candidate, negative, width (real numbers a vector), half (width / 2).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from kept.errors import ConfigError
from kept.evaluation.ranking import Direction
from kept.evaluation.ranks.counting import Comparable
from kept.kge.comparisons import (
    TINY,
    Norm,
    distance_comparer,
    moduli_sum,
    negative_distances,
    negative_moduli,
    negative_sampled_distances,
    products,
    sampled_products,
)
from kept.kge.kinds import FORMULAS
from kept.kge.scorer import QueryScorer, Scorer

__all__ = [
    "SCORES", "ComplEx", "DistMult", "Rescal", "RotatE", "Scorer", "TransE",
    "complex_score", "distmult_score", "make_scorer", "rotate_score", "transe_score",
]  # fmt: skip

_BLOCK_NUMBERS = 1 << 18  # of elementwise temporaries


class DistanceScorer(QueryScorer):
    """Abstract: scores by a distance in the L1 or L2 norm; `default_norm` where none is given."""

    default_norm: ClassVar[Norm]

    def __init__(
        self,
        *,
        n_entities: int,
        n_relations: int,
        width: int,
        generator: torch.Generator,
        norm: Norm | None = None,
    ) -> None:
        self.norm = self.default_norm if norm is None else norm
        if self.norm not in (1, 2):
            raise ConfigError(f"norm {norm} of {type(self).__name__} must be 1 or 2")
        super().__init__(
            n_entities=n_entities, n_relations=n_relations, width=width, generator=generator
        )

    def comparer(self, direction: Direction, /) -> Callable[[Tensor], Comparable]:
        """By squares of L2 distances to entities: they rise as the distances do."""
        has_bounds = self.entities.dtype in (torch.float32, torch.float64)
        if self.norm != 2 or direction == "relation" or not has_bounds:
            return super().comparer(direction)
        compare = distance_comparer(self.entities.detach())

        def compared(triples: Tensor) -> Comparable:
            head, relation, tail = self._ids(triples)
            relations = embedding(relation, self.relations)
            if direction == "head":
                return compare(self.head_queries(relations, embedding(tail, self.entities)))
            return compare(self.tail_queries(embedding(head, self.entities), relations))

        return compared


class BilinearScorer(QueryScorer):
    """Abstract: scores by inner products, of a query of any two vectors with the third."""

    def initialise(self, generator: torch.Generator) -> None:
        """Normal with a small deviation."""
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.normal_(0, 0.05, generator=generator)

    @abstractmethod
    def relation_queries(self, head_states: Tensor, tail_states: Tensor) -> Tensor:
        """`[batch width]`, `[batch width]`, compared with relations."""

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return products(queries, candidates)

    def compare_sampled(self, queries: Tensor, candidates: Tensor, sampled: Tensor) -> Tensor:
        return sampled_products(queries, candidates, sampled)

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return products(self.relation_queries(head_states, tail_states), candidates)


class TransE(DistanceScorer):
    """A relation is a translation (Bordes et al., NeurIPS 2013, equation 1).

    `score = -||h + r - t||_p`, p = 1 or 2 (not squared; the paper takes either). The default is L2,
    whose distances to many candidates are a matrix product.
    """

    default_norm = 2

    def initialise(self, generator: torch.Generator) -> None:
        """Uniform, scaled to length 1 (algorithm 1 of the paper)."""
        _unit(self.entities, generator)
        _unit(self.relations, generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return transe_score(head_states, relation_states, tail_states, self.norm)

    def tail_queries(self, head_states: Tensor, relation_states: Tensor) -> Tensor:
        return head_states + relation_states

    def head_queries(self, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return tail_states - relation_states

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        return negative_distances(queries, candidates, self.norm)

    def compare_sampled(self, queries: Tensor, candidates: Tensor, sampled: Tensor) -> Tensor:
        if self.norm == 2:
            return negative_sampled_distances(queries, candidates, sampled)
        return -(queries[:, None] - embedding(sampled, candidates)).abs().sum(-1)

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return negative_distances(tail_states - head_states, candidates, self.norm)


class Rescal(BilinearScorer):
    """A full bilinear form (Nickel et al., ICML 2011, equation 1): `score = h M t`.

    A relation's vector is its matrix `M`, row by row: `width ** 2` numbers.
    """

    @staticmethod
    def relation_width(width: int) -> int:
        return width * width

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return (_row_times(head_states, relation_states) * tail_states).sum(-1)

    def tail_queries(self, head_states: Tensor, relation_states: Tensor) -> Tensor:
        return _row_times(head_states, relation_states)

    def head_queries(self, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return (_matrices(relation_states) @ tail_states[..., None]).squeeze(-1)

    def relation_queries(self, head_states: Tensor, tail_states: Tensor) -> Tensor:
        return (head_states[:, :, None] * tail_states[:, None]).flatten(1)


class DistMult(BilinearScorer):
    """A diagonal bilinear form (Yang et al., ICLR 2015, equation 2): `score = sum(h * r * t)`.

    Symmetric in head and tail.
    """

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return distmult_score(head_states, relation_states, tail_states)

    def tail_queries(self, head_states: Tensor, relation_states: Tensor) -> Tensor:
        return head_states * relation_states

    def head_queries(self, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return relation_states * tail_states

    def relation_queries(self, head_states: Tensor, tail_states: Tensor) -> Tensor:
        return head_states * tail_states


class ComplEx(BilinearScorer):
    """DistMult over complex numbers (Trouillon et al., ICML 2016, equations 9 to 11).

    `score = Re(sum(h * r * conj(t)))`, written as one real matrix product in each direction.
    """

    def moduli(self, states: Tensor) -> Tensor:
        """Complex moduli; the small constant keeps the gradient finite at 0."""
        real, imaginary = states.chunk(2, -1)
        return (real.square() + imaginary.square() + TINY).sqrt()

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return complex_score(head_states, relation_states, tail_states)

    def tail_queries(self, head_states: Tensor, relation_states: Tensor) -> Tensor:
        return _times(head_states, relation_states)

    def head_queries(self, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return _times(tail_states, _conjugate(relation_states))

    def relation_queries(self, head_states: Tensor, tail_states: Tensor) -> Tensor:
        return _times(tail_states, _conjugate(head_states))


class RotatE(DistanceScorer):
    """A relation is a rotation of the complex plane (Sun et al., ICLR 2019, equations 2 and 10).

    `norm` 1: `score = -sum_k |h_k e^{i r_k} - t_k|`, the sum of moduli of the paper and its
    released code, and our default. 2: the L2 norm of all coordinates, as PyKEEN has it; distances
    to many candidates are then a matrix product. Relations hold `half` phases.
    """

    default_norm = 1

    @staticmethod
    def relation_width(width: int) -> int:
        return width // 2

    def initialise(self, generator: torch.Generator) -> None:
        """Entities uniform, scaled to length 1; phases uniform in +-pi."""
        _unit(self.entities, generator)
        with torch.no_grad():
            self.relations.uniform_(-torch.pi, torch.pi, generator=generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return rotate_score(head_states, relation_states, tail_states, self.norm)

    def tail_queries(self, head_states: Tensor, relation_states: Tensor) -> Tensor:
        return _times(head_states, _rotation(relation_states))

    def head_queries(self, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return _times(tail_states, _rotation(-relation_states))

    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        if self.norm == 2:
            return negative_distances(queries, candidates, 2)
        return negative_moduli(queries, candidates)

    def compare_sampled(self, queries: Tensor, candidates: Tensor, sampled: Tensor) -> Tensor:
        if self.norm == 2:
            return negative_sampled_distances(queries, candidates, sampled)
        return -moduli_sum(queries[:, None] - embedding(sampled, candidates))

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        step = max(1, _BLOCK_NUMBERS // max(1, len(candidates) * self.width))
        rotations = _rotation(candidates)
        parts = []
        for start in range(0, max(1, len(head_states)), step):
            heads, tails = (part[start : start + step, None] for part in (head_states, tail_states))
            parts.append(_rotated_distances(heads, rotations, tails, self.norm))
        return -torch.cat(parts)


def transe_score(
    head_states: Tensor, relation_states: Tensor, tail_states: Tensor, norm: int = 2
) -> Tensor:
    """`TransE.score` of vectors from anywhere."""
    difference = head_states + relation_states - tail_states
    distance: Tensor = torch.linalg.vector_norm(difference, norm, dim=-1)
    return -distance


def distmult_score(head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
    """`DistMult.score` of vectors from anywhere."""
    return (head_states * relation_states * tail_states).sum(-1)


def complex_score(head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
    """`ComplEx.score` of vectors from anywhere."""
    return (_times(head_states, relation_states) * tail_states).sum(-1)


def rotate_score(
    head_states: Tensor, relation_states: Tensor, tail_states: Tensor, norm: int = 1
) -> Tensor:
    """`RotatE.score` of vectors from anywhere."""
    return -_rotated_distances(head_states, _rotation(relation_states), tail_states, norm)


SCORES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "transe": transe_score,
    "distmult": distmult_score,
    "complex": complex_score,
    "rotate": rotate_score,
}
"""The formulas without tables, by the scorer's name; RESCAL's matrices need one."""


def make_scorer(
    name: str,
    *,
    n_entities: int,
    n_relations: int,
    width: int,
    generator: torch.Generator,
    norm: Norm | None = None,
) -> Scorer:
    """A fresh scorer by name; `norm` as in `TransE` and `RotatE`, None their own default.

    ConfigError: an unknown name, with the known ones; a norm for a scorer that has none.
    """
    kind = FORMULAS.require(name)
    options: dict[str, Any] = {} if norm is None else {"norm": norm}
    if options and not issubclass(kind, DistanceScorer):
        raise ConfigError(f"scorer {name!r} measures no distance: leave its norm out")
    return kind(
        n_entities=n_entities, n_relations=n_relations, width=width, generator=generator, **options
    )


def _unit(table: nn.Parameter, generator: torch.Generator) -> None:
    with torch.no_grad():
        table.uniform_(-1, 1, generator=generator)
        table.div_(table.norm(dim=1, keepdim=True))


def _matrices(relation_states: Tensor) -> Tensor:
    width = math.isqrt(relation_states.shape[-1])
    return relation_states.reshape(*relation_states.shape[:-1], width, width)


def _row_times(states: Tensor, relation_states: Tensor) -> Tensor:
    """Row vectors times matrices, `[... width]`."""
    return (states[..., None, :] @ _matrices(relation_states)).squeeze(-2)


def _times(factor: Tensor, right: Tensor) -> Tensor:
    """Complex product of `[real, imaginary]` vectors."""
    a, b = factor.chunk(2, -1)
    c, d = right.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def _conjugate(states: Tensor) -> Tensor:
    real, imaginary = states.chunk(2, -1)
    return torch.cat([real, -imaginary], -1)


def _rotation(phases: Tensor) -> Tensor:
    return torch.cat([phases.cos(), phases.sin()], -1)


def _rotated_distances(heads: Tensor, rotations: Tensor, tails: Tensor, norm: int) -> Tensor:
    difference = _times(heads, rotations) - tails
    if norm == 1:
        return moduli_sum(difference)
    distance: Tensor = torch.linalg.vector_norm(difference, dim=-1)
    return distance
