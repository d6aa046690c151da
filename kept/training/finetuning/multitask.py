"""Several tasks under one encoder: their samples in one stream, a head and scores for each.

Caruana 1997, "Multitask Learning" (hard sharing). A batch is of one task, so that methods and heads
need not know of the others; how often a task's turn comes follows its weight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from kept.batches import KnowledgeBatch
from kept.randomness import generator
from kept.training.finetuning.data import TaskData


def turns(sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """How many samples of an epoch each task gets: as many as all have together, by its share.

    At least one each; what rounding leaves goes to the largest remainders, the first of equals.

    >>> turns([900, 100], [900**0.5, 100**0.5])
    [750, 250]
    """
    total = sum(sizes)
    exact = [total * share / sum(shares) for share in shares]
    n_turns = [max(1, int(value)) for value in exact]
    order = sorted(range(len(exact)), key=lambda i: (int(exact[i]) - exact[i], i))
    for i in order[: max(0, total - sum(n_turns))]:
        n_turns[i] += 1
    return n_turns


class TaskMixture:
    """Training data of several tasks: sample numbers run on from task to task.

    An epoch has as many samples as the tasks have together, in `turns` by `weights`, or by size to
    the power `mixing` (1: in proportion; 0: all alike). A task whose turns are more than its
    samples goes round again in a new order; one with fewer shows others next time.
    """

    def __init__(
        self, parts: Sequence[TaskData], *, weights: Sequence[float] | None, mixing: float = 1.0
    ) -> None:
        self.parts = tuple(parts)
        sizes = [len(part) for part in parts]
        self.shares = [size**mixing for size in sizes] if weights is None else list(weights)
        self.turns = turns(sizes, self.shares)
        self._starts = np.cumsum([0, *sizes])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __repr__(self) -> str:
        each = ", ".join(f"{n} of {part}" for n, part in zip(self.turns, self.parts, strict=True))
        return f"TaskMixture(an epoch: {each})"

    @property
    def fingerprint(self) -> str:
        """SHA-256 over those of the tasks and their shares."""
        text = repr(([part.fingerprint for part in self.parts], self.shares))
        return hashlib.sha256(text.encode()).hexdigest()

    def n_nodes(self, index: int) -> int:
        """An upper bound for sample `index` in every epoch."""
        task, local_index = self._locate(index)
        return self.parts[task].n_nodes(local_index)

    def strata(self, *, epoch: int, seed: int) -> list[NDArray[np.int64]]:
        """The samples of an epoch, task by task, in the order of training."""
        strata = []
        for task, (part, n) in enumerate(zip(self.parts, self.turns, strict=True)):
            rounds = [
                generator(seed, "order of task", task, epoch, again).permutation(len(part))
                for again in range(-(-n // len(part)))
            ]
            strata.append(np.concatenate(rounds)[:n] + self._starts[task])
        return strata

    def sample(self, index: int, *, epoch: int, seed: int) -> KnowledgeBatch:
        """The sample with its task's number."""
        task, local_index = self._locate(index)
        sample = self.parts[task].sample(local_index, epoch=epoch, seed=seed)
        return sample.replace(task_ids=torch.full((len(sample),), task))

    def collate(
        self, samples: Sequence[KnowledgeBatch], *, epoch: int, seed: int, step: int
    ) -> KnowledgeBatch:
        """Stacked samples of one task."""
        first = samples[0].task_ids
        assert first is not None
        return self.parts[int(first)].collate(samples, epoch=epoch, seed=seed, step=step)

    def _locate(self, index: int) -> tuple[int, int]:
        task = int(np.searchsorted(self._starts, index, side="right")) - 1
        return task, index - int(self._starts[task])
