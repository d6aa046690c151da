"""Processes that share questions out ask a scorer the blocks of one process, and rank as one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch

from kept.evaluation.ranking import Direction, Filter, rank
from kept.evaluation.sampled_ranking import rank_among_sampled
from kept.evaluation.triple_classification import classify_triples, mean_of_directions
from kept.kgc import shared_ranking
from kept.kgc.shared_ranking import RememberedBlocks, questions_at_once, rank_together
from kept.randomness import generator
from kept.training.processes.together import Processes

N_ENTITIES, N_RELATIONS = 40, 3
ROWS = np.random.default_rng(5).integers(0, [N_ENTITIES, N_RELATIONS, N_ENTITIES], (203, 3))
ALL: tuple[Direction, ...] = ("head", "relation", "tail")


def known() -> Filter:
    return Filter({"test": ROWS}, n_entities=N_ENTITIES, n_relations=N_RELATIONS)


@dataclass
class Scores:
    """Depends on all that it is asked together, as the last bits of real scores do; with ties."""

    blocks: list[tuple[str, bytes]] = field(default_factory=list)

    def scores(self, direction: Direction, triples: torch.Tensor, /) -> torch.Tensor:
        self.blocks.append((direction, triples.numpy().tobytes()))
        n = N_RELATIONS if direction == "relation" else N_ENTITIES
        draws = torch.Generator().manual_seed(hash(tuple(triples.flatten().tolist())) & 0xFFFF)
        return torch.randint(0, 9, (len(triples), n), generator=draws).float()


@dataclass
class SharedList:
    """What threads tell each other, as processes do."""

    rank: int
    n: int
    barrier: Barrier
    values: list[Any]

    def share(self, n_parts: int) -> range:
        return Processes(self.rank, self.n).share(n_parts)

    def from_each(self, value: Any) -> list[Any]:
        self.values[self.rank] = value
        self.barrier.wait(20)
        values = list(self.values)
        self.barrier.wait(20)
        return values


def judged(scorer: Scores, together: Any) -> tuple[Any, ...]:
    """As `kept kgc eval` does: all, then a part again, among a few, and triples told apart."""
    directions = ("head", "tail", "relation")
    once = RememberedBlocks(scorer, ROWS, filter=known(), directions=directions, n_bytes=50_000)
    first = rank_together(once, ROWS, filter=known(), ties="realistic", directions=ALL,
                          together=together)  # fmt: skip
    part = ROWS[ROWS[:, 1] != 1]
    again = rank_together(once, part, filter=known(), ties="realistic",
                          directions=("head", "tail"), together=together)  # fmt: skip
    few = rank_among_sampled(
        once, part, filter=known(), ties="realistic", directions=("head", "tail"),
        n_candidates=10, n_draws=3, seed=1, block=32, together=together,
    )  # fmt: skip
    splits = {"valid": ROWS[:60], "test": ROWS[60:150]}
    false = {"valid": ROWS[150:180], "test": ROWS[180:]}
    classified = classify_triples(
        mean_of_directions(once), splits, false, n_relations=N_RELATIONS,
        generator=generator(0, "here"), batch_size=25, together=together,
    )  # fmt: skip
    return (
        first.triples, first.slots, first.ranks, str(first), again.ranks, again.conditions(),
        few.ranks, few.metrics(), few.conditions(), few.triples, few.slots, classified,
    )  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("n_bytes", [1 << 30, 160 * 30, 1])
def test_shares_are_ranked_as_one_process_ranks_them(
    n: int, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_ranking, "BLOCK_BYTES", n_bytes)
    one = Scores()
    expected = judged(one, Processes())
    scorers, barrier, values = [Scores() for _ in range(n)], Barrier(n), [None] * n
    with ThreadPoolExecutor(n) as threads:
        rankings = list(
            threads.map(
                lambda i: judged(scorers[i], SharedList(i, n, barrier, values)),
                range(n),
                timeout=60,
            )
        )
    for each in rankings:
        for mine, theirs in zip(each, expected, strict=True):
            assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
    assert {*one.blocks} == {block for scorer in scorers for block in scorer.blocks}


def test_each_block_is_asked_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_ranking, "BLOCK_BYTES", 160 * 30)
    one, scorers = Scores(), [Scores() for _ in range(3)]

    def ranked(scorer: Scores, together: Any) -> None:
        rank_together(scorer, ROWS, filter=known(), ties="realistic", directions=ALL,
                      together=together)  # fmt: skip

    ranked(one, Processes())
    barrier, values = Barrier(3), [None] * 3
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda i: ranked(scorers[i], SharedList(i, 3, barrier, values)), range(3)))
    assert sorted(one.blocks) == sorted(block for scorer in scorers for block in scorer.blocks)
    assert max(len(scorer.blocks) for scorer in scorers) <= len(one.blocks) / 3 + len(ALL)


@pytest.mark.parametrize("n_bytes", [1 << 24, 160 * 30, 1])
def test_a_block_is_what_rank_asks_at_once(n_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_ranking, "BLOCK_BYTES", n_bytes)
    scorer = Scores()
    rank(scorer, ROWS, filter=known(), ties="realistic", directions=ALL, candidates="all",
         byte_budget=n_bytes)  # fmt: skip
    for direction in ALL:
        sizes = [len(rows) // 24 for name, rows in scorer.blocks if name == direction]
        at_once = questions_at_once(known().n_candidates(direction))
        assert sizes[:-1] == [at_once] * (len(sizes) - 1)
        assert sizes[-1] <= at_once


def test_remembered_scores_are_those_of_their_block() -> None:
    scorer = Scores()
    once = RememberedBlocks(scorer, ROWS, filter=known(), directions=("tail",))
    block = scorer.scores("tail", torch.from_numpy(ROWS))
    assert torch.equal(once.scores("tail", torch.from_numpy(ROWS[[7, 2]])), block[[7, 2]])
    n_asked = len(scorer.blocks)
    once.scores("tail", torch.from_numpy(ROWS[9:40]))
    assert len(scorer.blocks) == n_asked
    other = torch.tensor([[39, 2, 39], ROWS[0].tolist()])
    assert torch.equal(once.scores("tail", other), scorer.scores("tail", other))
    assert torch.equal(
        once.scores("head", torch.from_numpy(ROWS[:3])),
        scorer.scores("head", torch.from_numpy(ROWS[:3])),
    )
