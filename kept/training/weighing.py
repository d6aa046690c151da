"""How the parts of a training step weigh: by their labels, so that a step of several parts has the
gradient of one batch that holds them all.

Each part is read once without gradients to count its labels, then once more to learn from: how many
labels a loss has is known only after its model has read the batch. Both readings draw the same
random numbers. A step of one part is read once.

A loss that does not divide by `kept.layers.means.mean_of` cannot be counted: with such a one every
part weighs alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from torch import Tensor

from kept.layers.means import counted_by
from kept.training.processes.together import Processes

Key = tuple[str, ...] | tuple[tuple[str, ...], int]
"""What a mean is of: the name of its loss, or all names of the part and the place among its means.
"""


@dataclass
class PartCount:
    """The labels of every mean that a part computes, over all processes, in their order."""

    n_labels: list[int] = field(default_factory=list)
    losses: tuple[str, ...] = ()

    def counting(self, together: Processes, *, is_spare: bool) -> AbstractContextManager[None]:
        """A context in which every mean adds its number of labels."""

        def count(total: Tensor, n_labels: Tensor | int) -> tuple[Tensor, Tensor | int]:
            mine = 0.0 if is_spare else float(n_labels)
            n_all = int(together.sums([mine])[0])
            self.n_labels.append(n_all)
            return total, n_all

        return counted_by(count)

    @property
    def keys(self) -> list[Key]:
        """What each mean is of."""
        if len(self.n_labels) == len(self.losses):
            return [(name,) for name in self.losses]
        return [(self.losses, part) for part in range(len(self.n_labels))]


class StepCount:
    """The labels of a whole step, which its parts divide by."""

    def __init__(self, parts: Sequence[PartCount]) -> None:
        self._parts = parts
        self._n_labels, self._n_parts = Counter[Key](), Counter[Key]()
        for part in parts:
            for key, n in zip(part.keys, part.n_labels, strict=True):
                self._n_labels[key] += n
                self._n_parts[key] += 1

    @property
    def is_complete(self) -> bool:
        """Whether every loss has means whose labels were counted."""
        return all(len(part.n_labels) >= len(part.losses) for part in self._parts)

    def shares(self, number: int, *, is_spare: bool) -> AbstractContextManager[None]:
        """A context in which the means of part `number` are its shares of the step's means.

        A loss that only some parts have, as those of several tasks do, weighs by their number.
        """
        keys = iter(self._parts[number].keys)

        def share(total: Tensor, _n_labels: Tensor | int) -> tuple[Tensor, Tensor | int]:
            key = next(keys)
            n: float = self._n_labels[key] * len(self._parts) / self._n_parts[key]
            return total * (0.0 if is_spare else 1.0), n  # type: ignore[return-value]

        return counted_by(share)
