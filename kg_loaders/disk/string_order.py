"""Arrow strings sorted, and shared out, by several threads."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numbers_array, numpy_of, string_scalar
from kg_loaders.disk.threads import together

_LEAST = 50_000
"""Strings that are worth a thread."""
_LOOKED_AT = 1000
"""Strings that say where all are parted."""
_MIXING = np.uint32(2654435769)
_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}


def sorted_strings(
    values: pa.LargeStringArray, n_threads: int = 1
) -> tuple[pa.LargeStringArray, NDArray[np.int32]]:
    """Return distinct strings sorted by code point, and the rank of each.

    >>> values, ranks = sorted_strings(pa.array(["b", "a"], pa.large_string()))
    >>> values.to_pylist(), ranks
    (['a', 'b'], array([1, 0], dtype=int32))
    """
    ranks = np.empty(len(values), np.int32)
    n_parts = min(n_threads, len(values) // _LEAST)
    if n_parts < 2:
        order = numpy_of(pc.sort_indices(values))
        ranks[order] = np.arange(len(order), dtype=np.int32)
        return values.take(numbers_array(order)), ranks
    parts = _parts_by_order(values, n_parts)
    firsts = np.cumsum([0, *(len(places) for places in parts)])

    def sort(places: NDArray[np.int64], first: int) -> pa.LargeStringArray:
        some = values.take(numbers_array(places))
        order = numpy_of(pc.sort_indices(some))
        ranks[places[order]] = np.arange(first, first + len(order), dtype=np.int32)
        return some.take(numbers_array(order))

    sorts = (partial(sort, *part) for part in zip(parts, firsts[:-1].tolist(), strict=True))
    return pa.concat_arrays(together(*sorts, n_threads=n_threads)), ranks


def _parts_by_order(values: pa.LargeStringArray, n: int) -> list[NDArray[np.int64]]:
    """The places of `n` parts of about one size; the strings of each sort before the next one's."""
    some = values.take(numbers_array(np.linspace(0, len(values) - 1, _LOOKED_AT, dtype=np.int64)))
    some = sorted(some.to_pylist(), key=str.encode)
    part_of = np.zeros(len(values), np.int8)
    for part in range(1, n):
        limit = string_scalar(some[part * _LOOKED_AT // n])
        part_of += numpy_of(pc.greater_equal(values, limit))
    return [np.flatnonzero(part_of == part) for part in range(n)]


def shares_of(values: pa.Array, n: int) -> NDArray[np.uint16]:
    """Return for each string in which of `n` shares of about one size it is, by its last bytes.

    Equal strings are in one share.

    >>> shares_of(pa.array(["a", "b", "a"]), 1)
    array([0, 0, 0], dtype=uint16)
    """
    shares = np.zeros(len(values), np.uint16)
    if n == 1 or not len(values):
        return shares
    first, n_values = values.offset, len(values)
    offsets = np.frombuffer(values.buffers()[1], _OFFSETS[values.type])
    offsets = offsets[first : first + n_values + 1]
    data = np.frombuffer(values.buffers()[2] or b"\0", np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    mixed = (ends - starts).astype(np.uint32)
    for position in range(1, 5):
        is_inside = ends - starts >= position
        mixed *= np.uint32(31)
        mixed += np.where(is_inside, data[np.where(is_inside, ends - position, 0)], 0)
    shares[:] = (mixed * _MIXING >> np.uint32(16)) % np.uint32(n)
    return shares
