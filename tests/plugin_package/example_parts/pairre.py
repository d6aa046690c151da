"""A scorer of triples: PairRE (Chao et al., ACL 2021, equation 1).

A relation has a vector for each side: `score = -||h * r_head - t * r_tail||`, in the L1 norm, of
entities of length 1.

Axis legend: batch, candidate, width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from kept.kge.kinds import Recipe, vectors
from kept.kge.scorer import Scorer


class PairRE(Scorer):
    """Vectors of entities, and two for each relation."""

    @staticmethod
    def relation_width(width: int) -> int:
        """Numbers a relation holds."""
        return 2 * width

    def initialise(self, generator: torch.Generator) -> None:
        """Normal with a small deviation."""
        with torch.no_grad():
            for table in (self.entities, self.relations):
                table.normal_(0, 0.1, generator=generator)

    def score(self, head_states: Tensor, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        of_head, of_tail = relation_states.chunk(2, -1)
        difference = (
            normalize(head_states, dim=-1) * of_head - normalize(tail_states, dim=-1) * of_tail
        )
        return -difference.abs().sum(-1)

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return self.score(head_states[:, None], relation_states[:, None], candidates)

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return self.score(candidates, relation_states[:, None], tail_states[:, None])

    def relations_between(
        self, head_states: Tensor, tail_states: Tensor, candidates: Tensor
    ) -> Tensor:
        return self.score(head_states[:, None], candidates, tail_states[:, None])


SCORER = vectors("example_parts.pairre:PairRE", Recipe(width=32))
