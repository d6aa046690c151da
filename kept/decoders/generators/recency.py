"""Entities that were mentioned lately, with how long each stays a candidate for being a parent.

Logan et al. 2019, section 3: facts are chosen from the entities in the local graph. The released
program lets an entity seen at step j be a candidate from j + 1 to j + `cutoff`, also in the next
chunk of the text.

Axis legend: batch, node, candidate.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from kept.errors import BatchError, ConfigError


class RecentEntities:
    """What is remembered of each row between chunks: entity -> steps for which it remains.

    Raises `ConfigError` for a cutoff below 1.
    """

    def __init__(self, cutoff: int) -> None:
        if cutoff < 1:
            raise ConfigError(f"a cutoff of {cutoff} forgets every entity at once; give 1 or more")
        self.cutoff = cutoff
        self._remaining: list[dict[int, int]] = []

    def reset(self, rows: Sequence[bool]) -> None:
        """Forget what is known of the rows marked True; another number of rows starts anew.

        Raises `BatchError` if a row that continues was never started.
        """
        if len(rows) != len(self._remaining):
            if not all(rows):
                raise BatchError(
                    f"{len(rows)} rows continue, but {len(self._remaining)} were started"
                )
            self._remaining = [{} for _ in rows]
        kept = zip(self._remaining, rows, strict=True)
        self._remaining = [{} if is_new else names for names, is_new in kept]

    def __call__(
        self, entity_ids: Int[Tensor, "batch node"]
    ) -> tuple[Int[Tensor, "batch candidate"], Bool[Tensor, "batch node candidate"]]:
        """Return each row's candidates and at which steps they are one; call it once a chunk.

        Candidates are in ascending order with 0 (no entity, never a candidate) first, padded by 0;
        those that appear only later in the chunk are listed too.
        """
        names, step_lists = [], []
        for row, ids in enumerate(entity_ids.tolist()):
            names.append(sorted({0, *ids, *self._remaining[row]}))
            step_lists.append(self._steps(row, ids))
        width = max(map(len, names))
        mask = torch.zeros(*entity_ids.shape, width, dtype=torch.bool)
        for row, (row_names, steps) in enumerate(zip(names, step_lists, strict=True)):
            for step, present in enumerate(steps):
                for entity in present:
                    mask[row, step, row_names.index(entity)] = True
        padded = [row_names + [0] * (width - len(row_names)) for row_names in names]
        return torch.tensor(padded, device=entity_ids.device), mask.to(entity_ids.device)

    def _steps(self, row: int, ids: Sequence[int]) -> list[list[int]]:
        """The candidates at each step, and what remains after the last."""
        remaining, steps = self._remaining[row], []
        for entity in ids:
            steps.append(sorted(remaining))
            remaining = {e: n - 1 for e, n in remaining.items() if n > 1}
            if entity:
                remaining[entity] = self.cutoff
        self._remaining[row] = remaining
        return steps
