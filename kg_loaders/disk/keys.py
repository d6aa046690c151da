"""Rows of ids as one number each, which sort and compare far faster than rows do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MOST_BITS = 62  # below the sign, and so that -1 is below every key


def bits_of(n: int) -> int:
    """Return how many bits the numbers below `n` need.

    >>> bits_of(1), bits_of(4), bits_of(5)
    (0, 2, 3)
    """
    return max(n - 1, 0).bit_length()


def packed(columns: Sequence[NDArray[np.int32]], limits: Sequence[int]) -> NDArray[np.int64] | None:
    """Return one key for each row, int64 `[row]`, in whose order rows sort; None if none would fit.

    The first of `columns`, int32 `[row]` each, weighs most; a column holds ids below its limit.

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


def unpacked(keys: NDArray[np.int64], limits: Sequence[int]) -> NDArray[np.int32]:
    """Return the rows of `packed` keys, int32 `[row column]`; `keys` is used up.

    >>> unpacked(np.array([1, 8, 11]), (3, 4)).tolist()
    [[0, 1], [2, 0], [2, 3]]
    """
    rows = np.empty((len(keys), len(limits)), np.int32)
    for column in reversed(range(len(limits))):
        bits = bits_of(limits[column])
        rows[:, column] = keys & ((1 << bits) - 1)
        keys >>= bits
    return rows
