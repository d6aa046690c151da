"""Means over labels, of one process or of all that share a batch.

Where several processes read a batch together, each has some of its labels; a mean of their means is
not the mean. So every loss is a total divided here, and training says who counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

Counting = Callable[[Tensor, Tensor | int], tuple[Tensor, Tensor | int]]

_COUNTING: ContextVar[Counting | None] = ContextVar("counting", default=None)


def mean_of(total: Tensor, n_labels: Tensor | int, *, least: int = 1) -> Tensor:
    """Return `total / n_labels`; without labels `total / least`, which is 0 unless `least` is.

    Inside `counted_by` it is this process's share of the mean: the shares of all add up to it.

    >>> import torch
    >>> mean_of(torch.tensor(6.0), 4), mean_of(torch.tensor(0.0), 0)
    (tensor(1.5000), tensor(0.))
    """
    counting = _COUNTING.get()
    if counting is not None:
        total, n_labels = counting(total, n_labels)
    if isinstance(n_labels, Tensor):
        return total / n_labels.clamp(min=least)
    return total / max(n_labels, least)


@contextmanager
def counted_by(counting: Counting | None) -> Iterator[None]:
    """Let `counting` turn a process's total and number of labels into what is divided; None:
    nothing does."""
    token = _COUNTING.set(counting)
    try:
        yield
    finally:
        _COUNTING.reset(token)
