"""Random numbers by name: every generator is made from `(seed, key)`, never from a global state.

That of `("mask", epoch, index)` is the same in any process, with any number of workers, before and
after a resume.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from entity_linking.randomness import Key, digest, generator, is_unused

__all__ = ["Key", "generator", "is_unused", "torch_draws", "torch_generator", "torch_seed"]


def torch_seed(seed: int, *key: Key) -> int:
    """A 63-bit seed for `(seed, *key)`."""
    return int.from_bytes(digest(seed, key)[:8], "little") >> 1


@contextmanager
def torch_draws(seed: int, *key: Key) -> Iterator[None]:
    """Seed torch by `(seed, *key)` inside the context; its state is restored afterwards.

    New weights are initialised under `torch_draws(seed, "initial weights")`.
    """
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(seed, *key))
        yield


def torch_generator(seed: int, *key: Key) -> torch.Generator:
    """A torch CPU generator of its own for `(seed, *key)`."""
    return torch.Generator().manual_seed(torch_seed(seed, *key))
