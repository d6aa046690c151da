"""Rows of ids as one number each, which sort and compare far faster than rows do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kg_loaders.disk.threads import together
from kg_loaders.errors import StoreError

_ROWS_AT_ONCE = 1 << 14
"""As many as a processor's cache holds."""
_LEAST = 100_000
"""Rows that are worth a thread."""
_LOOKED_AT = 1000
"""Rows that say where all are parted."""
_MOST_BITS = 62  # below the sign, and so that -1 is below every key


def bits_of(n: int) -> int:
    """Return how many bits the numbers below `n` need.

    >>> bits_of(1), bits_of(4), bits_of(5)
    (0, 2, 3)
    """
    return max(n - 1, 0).bit_length()


def packed(columns: Sequence[NDArray[Any]], limits: Sequence[int]) -> NDArray[np.int64] | None:
    """Return one key for each row, int64 `[row]`, in whose order rows sort; None if none would fit.

    The first of `columns`, integers `[row]` each, weighs most; each holds ids below its limit.

    >>> rows = np.array([[0, 1], [2, 0], [2, 3]], np.int32)
    >>> packed(rows.T, (3, 4))
    array([ 1,  8, 11])
    """
    n_bits = [bits_of(n) for n in limits]
    if sum(n_bits) > _MOST_BITS:
        return None
    keys = columns[0].astype(np.int64)
    for column, bits in zip(columns[1:], n_bits[1:], strict=True):
        keys <<= bits
        keys |= column
    return keys


def distinct_keys(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different keys, sorted; `keys` is sorted in its place.

    >>> distinct_keys(np.array([8, 1, 8]))
    array([1, 8])
    """
    keys.sort()  # np.unique hashes, which is slower
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return keys[is_first]


def unpacked(keys: NDArray[np.int64], limits: Sequence[int]) -> NDArray[np.int32]:
    """Return the rows of `packed` keys, int32 `[row column]`; `keys` is used up.

    >>> unpacked(np.array([1, 8, 11]), (3, 4)).tolist()
    [[0, 1], [2, 0], [2, 3]]
    """
    rows = np.empty((len(keys), len(limits)), np.int32)
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        some = keys[start : start + _ROWS_AT_ONCE]
        for column in reversed(range(len(limits))):
            bits = bits_of(limits[column])
            rows[start : start + len(some), column] = some & ((1 << bits) - 1)
            some >>= bits
    return rows


def sorted_distinct(
    triples: NDArray[np.int32], n_entities: int, n_relations: int, n_threads: int = 1
) -> NDArray[np.int32]:
    """Return the different rows of `triples [triple 3]`, sorted by head, relation and tail.

    Raises `StoreError` for ids outside the vocabularies.
    """
    if not len(triples):
        return np.zeros((0, 3), np.int32)
    limits = (n_entities, n_relations, n_entities)
    if triples.min() < 0 or (triples.max(axis=0) >= limits).any():
        raise StoreError(f"triples hold ids outside the vocabularies, whose sizes are {limits}")
    heads, relations, tails = triples.T
    keys = packed((heads, relations, tails), limits)
    if keys is not None:
        return _rows_of(keys, limits, n_threads)
    rows: NDArray[np.int32] = triples[np.lexsort((tails, relations, heads))].astype(np.int32)
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[first]


def _rows_of(
    keys: NDArray[np.int64], limits: tuple[int, int, int], n_threads: int
) -> NDArray[np.int32]:
    """The rows of the different keys, sorted; each thread takes those of a range."""
    n = min(n_threads, 1 + len(keys) // _LEAST)
    if n == 1:
        return unpacked(distinct_keys(keys), limits)
    some = np.sort(keys[:: max(len(keys) // _LOOKED_AT, 1)])
    bounds = [0, *(some[len(some) * i // n] for i in range(1, n)), 1 << _MOST_BITS]

    def rows(low: int, high: int) -> NDArray[np.int32]:
        return unpacked(distinct_keys(keys[(keys >= low) & (keys < high)]), limits)

    parts = together(*(partial(rows, *pair) for pair in pairwise(bounds)), n_threads=n_threads)
    return np.concatenate(parts)


def order_by_tail(
    triples: NDArray[np.int32], n_entities: int, n_relations: int
) -> NDArray[np.int32]:
    """Return the places of sorted `triples [triple 3]` by tail and relation, int32 `[triple]`."""
    _, relations, tails = triples.T
    places = np.arange(len(triples), dtype=np.int32)
    keys = packed((tails, relations, places), (n_entities, n_relations, len(triples)))
    if keys is None:
        return np.lexsort((places, relations, tails)).astype(np.int32)
    keys.sort()  # keys that hold their place sort faster than argsort
    keys &= (1 << bits_of(len(triples))) - 1
    return keys.astype(np.int32)
