"""Triple scorers: TransE, RESCAL, DistMult, ComplEx, RotatE behind one protocol; higher is better.

A scorer holds one vector an entity and one a relation. `score` broadcasts over states; `tails`,
`heads` and `relations` score all given candidates at once, as matrix products where the formula
allows. Complex vectors are stored as [real parts, imaginary parts].

Axis legend: batch, entity, relation, width (real numbers a vector), half (width / 2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from kept.errors import ConfigError
from kept.evaluation.ranking import Direction
from kept.kge.moduli import moduli_distances


class Scorer(nn.Module, ABC):
    """Entity and relation vectors with a scoring function.

    `scores(direction, triples)` is what `kept.evaluation.ranking.rank` takes.
    """

    entities: nn.Parameter
    relations: nn.Parameter

    def __init__(
        self, *, n_entities: int, n_relations: int, width: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise ConfigError(f"width {width} must be even and at least 2: complex halves need it")
        self.n_entities, self.n_relations, self.width = n_entities, n_relations, width
        self.entities = nn.Parameter(torch.empty(n_entities, width))
        self.relations = nn.Parameter(torch.empty(n_relations, self.relation_width(width)))
        self.initialise(generator)

    @staticmethod
    def relation_width(width: int) -> int:
        """Numbers a relation vector holds."""
        return width

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh vectors."""

    @abstractmethod
    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        """Score states that broadcast against each other, `[... width] -> [...]`."""

    def score_for(
        self,
        side: Literal["head", "tail"],
        head_states: Tensor,
        relation_states: Tensor,
        tail_states: Tensor,
    ) -> Tensor:
        """`score` as the answer to a question for the head or the tail, where these differ."""
        return self.score(head_states, relation_states, tail_states)

    @abstractmethod
    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        """`[batch width]`, `[batch width]`, `[candidate width] -> [batch candidate]`."""

    @abstractmethod
    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        """`[batch width]`, `[batch width]`, `[candidate width] -> [batch candidate]`."""

    @abstractmethod
    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        """`[batch width]`, `[batch width]`, `[candidate width] -> [batch candidate]`."""

    def moduli(self, states: Tensor) -> Tensor:
        """Absolute values of the coordinates, for N3 regularisation."""
        return states.abs()

    def score_triples(self, triples: Tensor) -> Tensor:
        """Scores `[batch]` of `triples` int `[batch 3]`."""
        head, relation, tail = self._ids(triples)
        return self.score(
            embedding(head, self.entities),
            embedding(relation, self.relations),
            embedding(tail, self.entities),
        )

    def score_tails(self, heads: Tensor, relations: Tensor) -> Tensor:
        """All tails of `(heads, relations)` ids `[batch]`: `[batch entity]`."""
        return self.tails(
            embedding(heads, self.entities), embedding(relations, self.relations), self.entities
        )

    def score_heads(self, relations: Tensor, tails: Tensor) -> Tensor:
        """All heads of `(relations, tails)` ids `[batch]`: `[batch entity]`."""
        return self.heads(
            embedding(relations, self.relations), embedding(tails, self.entities), self.entities
        )

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """All relations of `(heads, tails)` ids `[batch]`: `[batch relation]`."""
        return self.relations_between(
            embedding(heads, self.entities), embedding(tails, self.entities), self.relations
        )

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """All candidates for the asked slot of `triples` int `[batch 3]`."""
        head, relation, tail = self._ids(triples)
        if direction == "head":
            return self.score_heads(relation, tail)
        if direction == "tail":
            return self.score_tails(head, relation)
        return self.score_relations(head, tail)

    def _ids(self, triples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        head, relation, tail = triples.to(self.entities.device, torch.int64).unbind(-1)
        return head, relation, tail


class TransE(Scorer):
    """A relation is a translation (Bordes et al., NeurIPS 2013, equation 1).

    `score = -||h + r - t||_p`, p = 1 or 2 (not squared; the paper takes either). The default is L2,
    whose distances to many candidates are a matrix product.
    """

    def __init__(
        self,
        *,
        n_entities: int,
        n_relations: int,
        width: int,
        generator: torch.Generator,
        norm: Literal[1, 2] = 2,
    ) -> None:
        if norm not in (1, 2):
            raise ConfigError(f"norm {norm} of TransE must be 1 or 2")
        self.norm = norm
        super().__init__(
            n_entities=n_entities, n_relations=n_relations, width=width, generator=generator
        )

    def initialise(self, generator: torch.Generator) -> None:
        """Uniform, scaled to length 1 (algorithm 1 of the paper)."""
        _unit(self.entities, generator)
        _unit(self.relations, generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return transe_score(head_states, relation_states, tail_states, self.norm)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return -torch.cdist(head_states + relation_states, candidates, self.norm)

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return -torch.cdist(tail_states - relation_states, candidates, self.norm)

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return -torch.cdist(tail_states - head_states, candidates, self.norm)


class Rescal(Scorer):
    """A full bilinear form (Nickel et al., ICML 2011, equation 1): `score = h M t`.

    A relation's vector is its matrix `M`, row by row: `width ** 2` numbers.
    """

    @staticmethod
    def relation_width(width: int) -> int:
        return width * width

    def initialise(self, generator: torch.Generator) -> None:
        """Normal with a small deviation, as for `ComplEx`."""
        _normal(self, generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return (_row_times(head_states, relation_states) * tail_states).sum(-1)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return _row_times(head_states, relation_states) @ candidates.T

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        products = (_matrices(relation_states) @ tail_states[..., None]).squeeze(-1)
        return products @ candidates.T

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return (head_states[:, :, None] * tail_states[:, None]).flatten(1) @ candidates.T


class DistMult(Scorer):
    """A diagonal bilinear form (Yang et al., ICLR 2015, equation 2): `score = sum(h * r * t)`.

    Symmetric in head and tail.
    """

    def initialise(self, generator: torch.Generator) -> None:
        """Normal with a small deviation, as for `ComplEx`."""
        _normal(self, generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return distmult_score(head_states, relation_states, tail_states)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return (head_states * relation_states) @ candidates.T

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return (relation_states * tail_states) @ candidates.T

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return (head_states * tail_states) @ candidates.T


class ComplEx(Scorer):
    """DistMult over complex numbers (Trouillon et al., ICML 2016, equations 9 to 11).

    `score = Re(sum(h * r * conj(t)))`, written as one real matrix product in each direction.
    """

    def initialise(self, generator: torch.Generator) -> None:
        """Normal with a small deviation."""
        _normal(self, generator)

    def moduli(self, states: Tensor) -> Tensor:
        """Complex moduli; the small constant keeps the gradient finite at 0."""
        real, imaginary = states.chunk(2, -1)
        return (real.square() + imaginary.square() + 1e-20).sqrt()

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return complex_score(head_states, relation_states, tail_states)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return _times(head_states, relation_states) @ candidates.T

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return _times(tail_states, _conjugate(relation_states)) @ candidates.T

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return _times(tail_states, _conjugate(head_states)) @ candidates.T


class RotatE(Scorer):
    """A relation is a rotation of the complex plane (Sun et al., ICLR 2019, equations 2 and 10).

    `score = -sum_k |h_k e^{i r_k} - t_k|`: the sum of moduli of the paper and its released code,
    not the L2 norm of all coordinates that some libraries use. Relations hold `half` phases.
    """

    @staticmethod
    def relation_width(width: int) -> int:
        return width // 2

    def initialise(self, generator: torch.Generator) -> None:
        """Entities uniform, scaled to length 1; phases uniform in +-pi."""
        _unit(self.entities, generator)
        with torch.no_grad():
            self.relations.uniform_(-torch.pi, torch.pi, generator=generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        return rotate_score(head_states, relation_states, tail_states)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return -moduli_distances(_times(head_states, _rotation(relation_states)), candidates)

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return -moduli_distances(_times(tail_states, _rotation(-relation_states)), candidates)

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        rotated = _times(head_states[:, None], _rotation(candidates))
        return -_moduli_sum(rotated - tail_states[:, None])


SCORERS: dict[str, type[Scorer]] = {
    "transe": TransE,
    "rescal": Rescal,
    "distmult": DistMult,
    "complex": ComplEx,
    "rotate": RotatE,
}


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


def rotate_score(head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
    """`RotatE.score` of vectors from anywhere."""
    return -_moduli_sum(_times(head_states, _rotation(relation_states)) - tail_states)


SCORES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "transe": transe_score,
    "distmult": distmult_score,
    "complex": complex_score,
    "rotate": rotate_score,
}
"""The formulas without tables, by the scorer's name; RESCAL's matrices need one."""


def make_scorer(
    name: str, *, n_entities: int, n_relations: int, width: int, generator: torch.Generator
) -> Scorer:
    """A fresh scorer by name; ConfigError names the known ones."""
    if name not in SCORERS:
        raise ConfigError(f"scorer {name!r} is unknown; take one of {', '.join(SCORERS)}")
    return SCORERS[name](
        n_entities=n_entities, n_relations=n_relations, width=width, generator=generator
    )


def _normal(scorer: Scorer, generator: torch.Generator) -> None:
    with torch.no_grad():
        for table in (scorer.entities, scorer.relations):
            table.normal_(0, 0.05, generator=generator)


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


def _times(left: Tensor, right: Tensor) -> Tensor:
    """Complex product of `[real, imaginary]` vectors."""
    a, b = left.chunk(2, -1)
    c, d = right.chunk(2, -1)
    return torch.cat([a * c - b * d, a * d + b * c], -1)


def _conjugate(states: Tensor) -> Tensor:
    real, imaginary = states.chunk(2, -1)
    return torch.cat([real, -imaginary], -1)


def _rotation(phases: Tensor) -> Tensor:
    return torch.cat([phases.cos(), phases.sin()], -1)


def _moduli_sum(difference: Tensor) -> Tensor:
    real, imaginary = difference.chunk(2, -1)
    # the constant keeps the gradient finite where a difference is exactly 0
    return (real.square() + imaginary.square() + 1e-20).sqrt().sum(-1)
