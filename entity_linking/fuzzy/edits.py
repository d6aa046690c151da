"""`edit_similarities`: how alike two spellings are, one string against many at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_PADDING = 0xFFFFFFFF  # no code point


def edit_similarities(text: str, others: Sequence[str]) -> NDArray[np.float64]:
    """`1 - d / length of the longer string` for each of `others`, float64 `[other]`.

    d is the restricted Damerau-Levenshtein distance (Damerau 1964; no substring is edited twice):
    insertions, deletions, substitutions and swaps of neighbours each count 1. Two empty strings
    are alike.

    >>> edit_similarities("pairs", ["paris", "pair", "pears"]).tolist()
    [0.8, 0.8, 0.6]
    """
    lengths = np.fromiter(map(len, others), np.int64, len(others))
    longer = np.maximum(np.maximum(lengths, len(text)), 1)
    similar: NDArray[np.float64] = 1.0 - _distances(_codes(text), others, lengths) / longer
    return similar


def _distances(
    codes: NDArray[np.uint32], others: Sequence[str], lengths: NDArray[np.int64]
) -> NDArray[np.int32]:
    """One row of the table a character of the text, for all others together.

    Within a row insertions depend on the cell before; as each costs 1, they are a running minimum
    of the cells less their column.
    """
    n_others, width = len(others), int(lengths.max(initial=0))
    grid = np.full((n_others, width), _PADDING, np.uint32)
    grid[np.arange(width) < lengths[:, None]] = _codes("".join(others))
    column = np.arange(width + 1, dtype=np.int32)
    row = np.tile(column, (n_others, 1))
    above = row
    for i, code in enumerate(codes):
        before, above = above, row
        same = grid == code
        row = above + 1
        np.minimum(row[:, 1:], above[:, :-1] + ~same, out=row[:, 1:])
        if i and width > 1:
            swapped = same[:, :-1] & (grid[:, 1:] == codes[i - 1])
            np.minimum(row[:, 2:], before[:, :-2] + 1, out=row[:, 2:], where=swapped)
        row = np.minimum.accumulate(row - column, axis=1) + column
    return row[np.arange(n_others), lengths]


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
