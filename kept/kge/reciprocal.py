"""Reciprocal relations: a head is predicted as the tail of the relation's inverse.

Axis legend: batch, entity, candidate, relation, width (of a vector of the inner formula).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from kept.errors import ConfigError
from kept.kge.comparisons import Norm
from kept.kge.scorers import Scorer, make_scorer


class Reciprocal(Scorer):
    """Any scorer, with a second vector per relation for head prediction.

    Lacroix et al., ICML 2018; Kazemi & Poole, NeurIPS 2018: `tails = f(h, r, ?)`, `heads = f(t,
    r_inverse, ?)`. `score` and `relations_between`, which predict neither side, are the mean of
    both (as in Kazemi & Poole's SimplE). `relations` holds `[vector, vector of the inverse]` by
    row, so training and ranking need no change.

    Where we differ: both queries of a triple are in one batch, and N3 counts its entities once and
    not once per query: a weight here is up to twice that of Lacroix et al.

    `inner` hands over its vectors, of `2 n_relations` relations: row `2 r` is relation `r`, the
    next one its inverse. ConfigError: an odd number of them.
    """

    def __init__(self, inner: Scorer) -> None:
        nn.Module.__init__(self)  # Scorer's own would draw vectors a second time
        if inner.n_relations % 2:
            raise ConfigError(
                f"{inner.n_relations} relations cannot be relations and their inverses; "
                "give the inner scorer twice as many as the graph has"
            )
        self.n_entities, self.n_relations = inner.n_entities, inner.n_relations // 2
        self.width = inner.width
        self.entities = inner.entities
        self.relations = nn.Parameter(inner.relations.detach().reshape(self.n_relations, -1))
        del inner.entities, inner.relations  # formulas only from here on
        self.inner = inner

    def initialise(self, generator: torch.Generator) -> None:
        """Initialise vectors as the inner scorer does."""
        n_relations = 2 * self.n_relations
        fresh = type(self.inner)(
            n_entities=self.n_entities,
            n_relations=n_relations,
            width=self.width,
            generator=generator,
        )
        with torch.no_grad():
            self.entities.copy_(fresh.entities)
            self.relations.copy_(fresh.relations.reshape(self.n_relations, -1))

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        states = head_states, relation_states, tail_states
        return (self.score_for("head", *states) + self.score_for("tail", *states)) / 2

    def score_for(
        self,
        side: Literal["head", "tail"],
        head_states: Tensor,
        relation_states: Tensor,
        tail_states: Tensor,
    ) -> Tensor:
        """One of the two scores that `score` averages: that of `heads` or of `tails`."""
        relation, inverse = relation_states.chunk(2, -1)
        if side == "tail":
            return self.inner.score(head_states, relation, tail_states)
        return self.inner.score(tail_states, inverse, head_states)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return self.inner.tails(head_states, relation_states.chunk(2, -1)[0], candidates)

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return self.inner.tails(tail_states, relation_states.chunk(2, -1)[1], candidates)

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        relation, inverse = candidates.chunk(2, -1)
        there = self.inner.relations_between(head_states, tail_states, relation)
        return (there + self.inner.relations_between(tail_states, head_states, inverse)) / 2

    def moduli(self, states: Tensor) -> Tensor:
        """Of entities, or of relations and their inverses, as the inner scorer has them."""
        if states.shape[-1] == self.width:
            return self.inner.moduli(states)
        return torch.cat([self.inner.moduli(part) for part in states.chunk(2, -1)], -1)


def make_reciprocal(
    name: str,
    *,
    n_entities: int,
    n_relations: int,
    width: int,
    generator: torch.Generator,
    norm: Norm | None = None,
) -> Reciprocal:
    """A fresh scorer by name with inverses for the `n_relations` of a graph."""
    return Reciprocal(
        make_scorer(
            name,
            n_entities=n_entities,
            n_relations=2 * n_relations,
            width=width,
            generator=generator,
            norm=norm,
        )
    )
