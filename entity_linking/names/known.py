"""`KnownSurfaces`: surfaces that have been decided on, found again by the characters of many texts.

A hash says which surface a stretch of text may be, its characters decide.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from entity_linking.names.keys import find_cells, mixed, spread, token_hashes
from entity_linking.parts import Candidates
from entity_linking.surfaces import lengths_of, side_by_side

FEW = 64
WORTH = 256  # fewer stretches are looked up one by one in less time


class KnownSurfaces:
    """An immutable table of what surfaces may mean, numbered in their order.

    `meanings` and `is_refused`, bool, whether a surface means nothing, are by number; the last of
    both, -1, is for what is not known.

    >>> known = KnownSurfaces({"Paris": (), "Rome": ()})
    >>> texts = side_by_side(["Rome, not Paris, at dawn"])
    >>> known.numbers(texts, np.array([1, 11, 18]), np.array([5, 16, 20])).tolist()
    [1, 0, -1]
    """

    def __init__(self, choices: Mapping[str, Candidates]) -> None:
        surfaces = list(choices)
        self.meanings: list[Candidates] = [*choices.values(), ()]
        self.is_refused = np.array([not meaning for meaning in self.meanings])
        self.is_refused[-1] = False
        self._codes, self._lengths = side_by_side(surfaces), lengths_of(surfaces)
        self._begins = np.cumsum(self._lengths + 1) - self._lengths
        hashes, numbers = np.unique(
            self._hashes(self._codes, self._begins, self._begins + self._lengths), return_index=True
        )
        self._table = spread(hashes)
        self._numbers = np.full(len(self._table), -1, np.int64)
        self._numbers[find_cells(self._table, hashes)[0]] = numbers

    def __len__(self) -> int:
        return len(self.meanings) - 1

    @property
    def enough(self) -> int:
        """How many surfaces are worth a new table: an eighth more, and a few."""
        return len(self) + len(self) // 8 + FEW

    def numbers(
        self, codes: NDArray[np.uint32], begins: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The numbers of the stretches `begins[i]` to `stops[i]` of `codes`, -1 for those not here.

        Of surfaces that share a hash only the first is ever found.
        """
        if not len(self):
            return np.full(len(begins), -1)
        hashes = self._hashes(codes, begins, stops)
        places, cells = find_cells(self._table, hashes)
        numbers = np.where(cells == hashes, self._numbers.take(places), -1)
        lengths = stops - begins
        numbers[self._lengths.take(numbers, mode="clip") != lengths] = -1
        met = np.flatnonzero(numbers >= 0)
        lengths = lengths[met]
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1] if len(met) else 0)
        here = codes.take(within + np.repeat(begins[met] - ends + lengths, lengths))
        there = self._begins[numbers[met]] - ends + lengths
        differing = np.flatnonzero(here != self._codes.take(within + np.repeat(there, lengths)))
        numbers[met[np.searchsorted(ends, differing, "right")]] = -1
        return numbers

    @staticmethod
    def _hashes(
        codes: NDArray[np.uint32], begins: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """Multiples of four, none of them that of an empty cell."""
        return mixed(token_hashes(codes, begins, stops))
