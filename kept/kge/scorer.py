"""The interface of triple scorers: vectors of entities and relations, and their scores.

`score` broadcasts over states; `tails`, `heads` and `relations_between` score all given candidates
at once.

Axis legend: batch, entity, candidate, negative, width (real numbers a vector).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from kept.errors import ConfigError
from kept.evaluation.ranking import Direction
from kept.evaluation.ranks.counting import Comparable


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
        """Initialise the vectors."""

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
        """`score` as head or as tail prediction, where these differ."""
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

    def corrupted(
        self,
        head_states: Tensor,
        relation_states: Tensor,
        tail_states: Tensor,
        candidates: Tensor,
        sampled: Tensor,
        n_heads: int,
    ) -> Tensor:
        """Scores `[batch negative]` of triples with one side replaced by candidates of their own.

        The first `n_heads` triples are corrupted at the head, all others at the tail. Shapes:
        states `[batch width]`, `candidates [candidate width]`, `sampled` row numbers of candidates,
        int `[batch negative]`.
        """
        replaced = embedding(sampled, candidates)
        head, relation, tail = head_states[:, None], relation_states[:, None], tail_states[:, None]
        first, rest = slice(None, n_heads), slice(n_heads, None)
        return torch.cat(
            [
                self.score_for("head", replaced[first], relation[first], tail[first]),
                self.score_for("tail", head[rest], relation[rest], replaced[rest]),
            ]
        )

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
        """All candidates for the predicted slot of `triples` int `[batch 3]`."""
        head, relation, tail = self._ids(triples)
        if direction == "head":
            return self.score_heads(relation, tail)
        if direction == "tail":
            return self.score_tails(head, relation)
        return self.score_relations(head, tail)

    def comparer(self, direction: Direction, /) -> Callable[[Tensor], Comparable]:
        """What `rank` asks in place of `scores`: numbers that rise with them may cost less."""
        return lambda triples: Comparable(self.scores(direction, triples))

    def _ids(self, triples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        head, relation, tail = triples.to(self.entities.device, torch.int64).unbind(-1)
        return head, relation, tail


class QueryScorer(Scorer):
    """A scorer that combines two vectors into a query and compares it with any third."""

    @abstractmethod
    def tail_queries(self, head_states: Tensor, relation_states: Tensor) -> Tensor:
        """`[batch width]`, `[batch width] -> [batch width]`, compared with tails."""

    @abstractmethod
    def head_queries(self, relation_states: Tensor, tail_states: Tensor) -> Tensor:
        """`[batch width]`, `[batch width] -> [batch width]`, compared with heads."""

    @abstractmethod
    def compare(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """`[batch width]`, `[candidate width] -> [batch candidate]`."""

    @abstractmethod
    def compare_sampled(self, queries: Tensor, candidates: Tensor, sampled: Tensor) -> Tensor:
        """`[batch width]`, `[candidate width]`, row numbers `[batch negative]` as result."""

    def tails(self, head_states: Tensor, relation_states: Tensor, candidates: Tensor) -> Tensor:
        return self.compare(self.tail_queries(head_states, relation_states), candidates)

    def heads(self, relation_states: Tensor, tail_states: Tensor, candidates: Tensor) -> Tensor:
        return self.compare(self.head_queries(relation_states, tail_states), candidates)

    def corrupted(
        self,
        head_states: Tensor,
        relation_states: Tensor,
        tail_states: Tensor,
        candidates: Tensor,
        sampled: Tensor,
        n_heads: int,
    ) -> Tensor:
        _, heads = head_states.tensor_split([n_heads])
        relations = relation_states.tensor_split([n_heads])
        tails, _ = tail_states.tensor_split([n_heads])
        queries = [self.head_queries(relations[0], tails), self.tail_queries(heads, relations[1])]
        return self.compare_sampled(torch.cat(queries), candidates, sampled)
