"""Random numbers by name: every draw comes from `(seed, key)`, never from a global state."""

from __future__ import annotations

import hashlib
from operator import index

import numpy as np

Key = int | str


def digest(seed: int, key: tuple[Key, ...]) -> bytes:
    """Sixteen bytes that stand for `(seed, *key)`, the same in every process."""
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
    philox_key = int.from_bytes(digest(seed, key), "little")
    return np.random.Generator(np.random.Philox(key=philox_key))


def is_unused(generator: np.random.Generator) -> bool:
    """Whether a generator of `generator` has given no number yet.

    >>> draws = generator(7, "mask")
    >>> is_unused(draws), draws.random() < 1, is_unused(draws)
    (True, True, False)
    """
    state = generator.bit_generator.state
    is_first = not state["state"]["counter"].any() and not state["has_uint32"]
    return bool(is_first and state["buffer_pos"] == len(state["buffer"]))
