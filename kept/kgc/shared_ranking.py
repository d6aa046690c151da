"""Ranks of a split's questions, by one process or by several that share them out.

What is computed together is so whoever computes it: the last bits of a score may depend on what is
scored beside it, and ranks of near ties on these. So processes share out whole blocks, those that
`rank` asks of one process.

Axis legend: triple, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kept.evaluation.ranking import (
    Direction,
    Filter,
    HasScores,
    RankCounts,
    RankingResult,
    Ties,
    Triples,
    rank,
)
from kept.training.processes.together import SINGLE_PROCESS, Processes

BLOCK_BYTES = 16 << 20
MAX_AT_ONCE = 256
REMEMBERED_BYTES = 1 << 30


def questions_at_once(n_candidates: int) -> int:
    """The number of questions in a block, as `rank` makes it of `BLOCK_BYTES`."""
    return max(1, min(MAX_AT_ONCE, BLOCK_BYTES // (4 * n_candidates)))


def rank_together(
    scorer: HasScores,
    triples: Triples,
    *,
    filter: Filter,
    ties: Ties,
    directions: Sequence[Direction],
    together: Processes = SINGLE_PROCESS,
) -> RankingResult:
    """`rank` among all candidates; several processes share the blocks out and all have the result.

    Shapes: `triples [triple 3]`. EvaluationError: as `rank`.
    """
    if together.n == 1:
        return rank(
            scorer,
            triples,
            filter=filter,
            ties=ties,
            directions=directions,
            candidates="all",
            byte_budget=BLOCK_BYTES,
        )
    parts: list[RankingResult] = []
    for direction in directions:
        at_once = questions_at_once(filter.n_candidates(direction))
        block_numbers = together.share(-(-len(triples) // at_once))
        rows = triples[block_numbers.start * at_once : block_numbers.stop * at_once]
        part = rank(
            scorer,
            rows,
            filter=filter,
            ties=ties,
            directions=(direction,),
            candidates="all",
            byte_budget=BLOCK_BYTES,
        )
        parts += together.from_each(part)
    skipped: dict[str, int] = {}
    for part in parts:
        for reason, n in part.n_skipped.items():
            skipped[reason] = skipped.get(reason, 0) + n
    return replace(
        parts[0],
        triples=np.concatenate([part.triples for part in parts]),
        slots=np.concatenate([part.slots for part in parts]),
        counts=RankCounts(
            np.concatenate([part.counts.n_greater for part in parts]),
            np.concatenate([part.counts.n_equal for part in parts]),
        ),
        directions=tuple(directions),
        n_asked=sum(part.n_asked for part in parts),
        n_skipped=skipped,
    )


class RememberedBlocks:
    """A scorer asked for the same questions twice, against all candidates and against a few.

    The blocks that `rank_together` asks of `triples` are computed when one of their questions is
    first asked, and kept; the first of them as far as `n_bytes` go. Other questions, and any beside
    one of those, are scored as they are asked.
    """

    def __init__(
        self,
        inner: HasScores,
        triples: Triples,
        *,
        filter: Filter,
        directions: Sequence[Direction],
        n_bytes: int = REMEMBERED_BYTES,
    ) -> None:
        self.inner = inner
        self._blocks: list[tuple[Direction, NDArray[np.int64]]] = []
        self._places: dict[tuple[str, int, int, int], tuple[int, int]] = {}
        self._kept: dict[int, Tensor] = {}
        rows = np.asarray(triples, np.int64).reshape(-1, 3)
        for direction in directions:
            n_candidates = filter.n_candidates(direction)
            at_once = questions_at_once(n_candidates)
            for start in range(0, 0 if direction == "relation" else len(rows), at_once):
                block = rows[start : start + at_once]
                n_bytes -= 4 * n_candidates * len(block)
                if n_bytes < 0:
                    return
                for row, key in enumerate(_keys(direction, block)):
                    self._places[key] = len(self._blocks), row
                self._blocks.append((direction, block))

    def scores(self, direction: Direction, triples: Tensor, /) -> Tensor:
        """`[triple candidate]`."""
        keys = _keys(direction, triples.cpu().numpy())
        cached_rows = [self._places[key] for key in keys if key in self._places]
        if not cached_rows or len(cached_rows) < len(keys):
            return self.inner.scores(direction, triples)
        return torch.stack([self._of(block)[row] for block, row in cached_rows])

    def _of(self, block: int) -> Tensor:
        if block not in self._kept:
            direction, rows = self._blocks[block]
            self._kept[block] = self.inner.scores(direction, torch.from_numpy(rows)).cpu()
        return self._kept[block]


def _keys(direction: Direction, triples: Triples) -> list[tuple[str, int, int, int]]:
    return [(direction, head, relation, tail) for head, relation, tail in triples.tolist()]
