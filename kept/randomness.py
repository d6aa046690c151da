"""Random numbers by name: every draw comes from `(seed, key)`, never from a global state.

A generator made for `("mask", epoch, index)` draws the same in any process, at any number of
workers, before and after a resume.
"""

from __future__ import annotations

import hashlib
from operator import index

import numpy as np
import torch

Key = int | str


def _digest(seed: int, key: tuple[Key, ...]) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for part in (seed, *key):
        if isinstance(part, str):
            raw = part.encode()
            state.update(b"s%d:" % len(raw) + raw)
        else:
            state.update(b"i%d;" % index(part))
    return state.digest()


def generator(seed: int, *key: Key) -> np.random.Generator:
    """A NumPy generator (Philox) of its own for `(seed, *key)`.

    >>> [int(generator(7, "mask", 0, 12).integers(1000)) for _ in range(2)]
    [109, 109]
    """
    philox_key = int.from_bytes(_digest(seed, key), "little")
    return np.random.Generator(np.random.Philox(key=philox_key))


def torch_seed(seed: int, *key: Key) -> int:
    """A 63-bit seed for `(seed, *key)`."""
    return int.from_bytes(_digest(seed, key)[:8], "little") >> 1


def torch_generator(seed: int, *key: Key) -> torch.Generator:
    """A torch CPU generator of its own for `(seed, *key)`."""
    return torch.Generator().manual_seed(torch_seed(seed, *key))
