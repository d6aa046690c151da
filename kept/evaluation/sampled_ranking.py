"""Ranking among a few sampled candidates: GraIL's protocol, with its conditions in the result.

Teru et al. 2020 (ICML, section 4.1) rank a triple among 50 candidates, itself included, on both
sides. Hits@10 of 50 says little about ranking all entities; report `kept.evaluation.ranking.rank`
beside it.

Axis legend: question, draw, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from kept.errors import EvaluationError
from kept.evaluation.ranking import SLOTS, Direction, Filter, HasScores, RankCounts, Ties
from kept.randomness import generator

T = TypeVar("T")


class Sharing(Protocol):
    """Processes that share parts out: `kept.training.processes.together.Processes`."""

    def share(self, n_parts: int) -> range:
        """This process's of parts in a row, consecutive ones."""
        ...

    def from_each(self, value: T) -> list[T]:
        """The `value` of each process, which all call this."""
        ...


class NotShared:
    """One process, which does all."""

    def share(self, n_parts: int) -> range:
        """All parts."""
        return range(n_parts)

    def from_each(self, value: T) -> list[T]:
        """The value alone."""
        return [value]


NOT_SHARED: Sharing = NotShared()


@dataclass(frozen=True, eq=False)
class SampledRanking:
    """`ranks [question draw]` with the conditions under which they hold.

    `triples [question 3]`; `slots [question]` is the predicted slot. `n_short` queries had fewer
    negatives than `n_candidates - 1`, and rank among all of them.
    """

    triples: NDArray[np.int64]
    slots: NDArray[np.uint8]
    ranks: NDArray[np.float64]
    ties: Ties
    filter: str
    n_candidates: int
    n_short: int

    def hits(self, k: int) -> NDArray[np.float64]:
        """Share of draws in which each question's answer is among the first k, `[question]`."""
        return np.asarray((self.ranks <= k).mean(1))

    def metrics(self) -> dict[str, float]:
        """MRR and Hits@1/3/10, means over questions and draws."""
        shares = {f"hits@{k}": float(self.hits(k).mean()) for k in (1, 3, 10)}
        return {"mrr": float((1 / self.ranks).mean()), **shares}

    def conditions(self) -> dict[str, object]:
        """The conditions to report beside a score."""
        sampled = f"the answer and {self.n_candidates - 1} distinct entities that are not answers"
        return {
            "ties": self.ties,
            "filter": self.filter,
            "candidates": sampled,
            "n_draws": self.ranks.shape[1],
            "n_questions": len(self.slots),
            "n_short": self.n_short,
        }


def rank_among_sampled(
    scorer: HasScores,
    triples: NDArray[np.integer],
    *,
    filter: Filter,
    ties: Ties,
    directions: Sequence[Direction],
    n_candidates: int,
    n_draws: int,
    seed: int,
    block: int = 256,
    together: Sharing = NOT_SHARED,
) -> SampledRanking:
    """Rank every answer among itself and `n_candidates - 1` entities, sampled anew in each draw.

    Where we differ from the released program: negatives are distinct and never a known answer
    (there only the context's triples are filtered), and ties count by `ties` (there by the order of
    a sort). Samples depend on (seed, direction, draw), so every method gets the same candidates.
    Several processes share blocks of `block` questions out, and all have the result.
    EvaluationError: no triple, or no negative.
    """
    rows = np.asarray(triples, np.int64).reshape(-1, 3)
    if not len(rows) or n_candidates < 2 or n_draws < 1:
        raise EvaluationError(
            f"{len(rows)} triples, {n_candidates=}, {n_draws=}: each must allow a comparison"
        )
    slots: list[NDArray[np.uint8]] = []
    parts: list[tuple[list[NDArray[np.float64]], int]] = []
    starts = range(0, len(rows), block)
    block_numbers = together.share(len(starts))
    for direction in directions:
        ranks: list[NDArray[np.float64]] = []
        n_short = 0
        for start in starts[block_numbers.start : block_numbers.stop]:
            questions = rows[start : start + block]
            with torch.no_grad():
                scores = scorer.scores(direction, torch.from_numpy(questions)).cpu().numpy()
            if np.isnan(scores).any():
                raise EvaluationError("a score is NaN; check the model's weights and its training")
            free = np.ones(scores.shape, bool)
            free[filter.known(direction, questions)] = False
            free[np.arange(len(questions)), questions[:, SLOTS[direction]]] = False
            n_short += int((free.sum(1) < n_candidates - 1).sum())
            sampled = [
                _ranks(
                    scores,
                    free,
                    questions[:, SLOTS[direction]],
                    n_candidates - 1,
                    ties,
                    generator(seed, "sampled candidates", direction, start, draw),
                )
                for draw in range(n_draws)
            ]
            ranks.append(np.stack(sampled, 1))
        parts += together.from_each((ranks, n_short))
        slots.append(np.full(len(rows), SLOTS[direction], np.uint8))
    return SampledRanking(
        triples=np.concatenate([rows] * len(directions)),
        slots=np.concatenate(slots),
        ranks=np.concatenate([each for ranks, _ in parts for each in ranks]),
        ties=ties,
        filter=filter.description,
        n_candidates=n_candidates,
        n_short=sum(n_short for _, n_short in parts),
    )


def _ranks(
    scores: NDArray[np.float32],
    free: NDArray[np.bool_],
    gold: NDArray[np.int64],
    n_negatives: int,
    ties: Ties,
    draws: np.random.Generator,
) -> NDArray[np.float64]:
    """Ranks `[question]` among `n_negatives` free candidates each: those with the smallest keys."""
    keys = np.where(free, draws.random(free.shape), np.inf)
    n = min(n_negatives, free.shape[1])
    columns = np.argpartition(keys, n - 1, axis=1)[:, :n]
    competes = np.take_along_axis(free, columns, 1)
    rivals = np.take_along_axis(scores, columns, 1)
    gold_scores = scores[np.arange(len(gold)), gold][:, None]
    greater = ((rivals > gold_scores) & competes).sum(1)
    equal = ((rivals == gold_scores) & competes).sum(1)
    return RankCounts(greater, equal).ranks(ties)
