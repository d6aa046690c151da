"""`Names`: names of blocks as they come, each kept once, and their ranks once all are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.arrow import mask_array, numbers_array, numpy_of, string_scalar
from kg_loaders.disk.string_order import shares_of, sorted_strings
from kg_loaders.disk.threads import together
from kg_loaders.reading.blocks import Ids, numbers_behind, start_of
from kg_loaders.vocabulary import Vocabulary, strings

_FEW = 1 << 20
"""Names that wait before they are made distinct."""


@dataclass(slots=True, eq=False)
class _Part:
    """Ids that were placed together, and of the names they are ids of the places among all names.

    `numbers [name]` are those that names have behind the common start, -1 where they have none.
    `shares` say of those without one in which share their place is; in the end places are ranks.
    """

    ids: Ids
    places: Ids
    numbers: Ids
    shares: NDArray[np.uint16]


class Names:
    """Names of entities, or of relations: one by one in `ids`, or many at once by `add_block`.

    Names that are a number behind the start of the first ones, as `Q90` or `http://…/Q90`, are not
    hashed: their numbers are looked up. That start, or that there is none, is settled by the first
    names and holds for all, or else a name could stand in both ways.
    """

    def __init__(self, n_threads: int = 1) -> None:
        self.ids: dict[str, int] = {}
        self._n_threads = n_threads
        self._start: str | None = None
        self._is_settled = False
        self._numbers: list[Ids] = []
        self._parts: list[_Part] = []
        self._known = [strings([]) for _ in range(n_threads)]
        """By share, so that each has a thread."""
        self._waiting: list[tuple[_Part, pa.LargeStringArray]] = []
        self._n_waiting = 0

    def __len__(self) -> int:
        return len(self.ids) + sum(map(len, self._known))

    def add_block(self, names: pa.StringArray | str, ids: Ids) -> Ids:
        """A copy of `ids` into `names`, which `sort` turns into ranks where it stands."""
        if isinstance(names, str):
            self._settle(names)
            if self._start == names:
                self._numbers.append(ids.astype(np.int32))
                return self._numbers[-1]
            used, places = np.unique(ids, return_inverse=True)
            names, ids = _numbered(names, used), places.reshape(ids.shape).astype(np.int32)
        if len(names):
            self._settle(start_of(names))
        numbers = numbers_behind(self._start, names)
        others = names.filter(mask_array(numbers < 0)).cast(pa.large_string())
        shares = shares_of(others, self._n_threads)
        part = _Part(ids.astype(np.int32), np.empty(len(names), np.int32), numbers, shares)
        self._parts.append(part)
        self._waiting.append((part, others))
        self._n_waiting += len(others)
        if self._n_waiting > max(_FEW, len(self)):
            self._merge()
        return part.ids

    def _settle(self, start: str | None) -> None:
        if not self._is_settled:
            self._start, self._is_settled = start, True

    def _merge(self) -> None:
        """Drop repeated names; what is known stays where it is."""
        n = self._n_threads
        waiting = [(part, names, np.flatnonzero(part.numbers < 0)) for part, names in self._waiting]

        def merge(share: int) -> None:
            chosen = waiting
            if n > 1:
                masks = [part.shares == share for part, _, _ in waiting]
                chosen = [
                    (part, names.filter(mask_array(mask)), rows[mask])
                    for (part, names, rows), mask in zip(waiting, masks, strict=True)
                ]
            known = self._known[share]
            encoded = pa.concat_arrays([known, *(names for _, names, _ in chosen)])
            encoded = encoded.dictionary_encode()
            places, start = numpy_of(encoded.indices), len(known)
            for part, names, rows in chosen:
                part.places[rows] = places[start : start + len(names)]
                start += len(names)
            self._known[share] = encoded.dictionary

        together(*(partial(merge, share) for share in range(n)), n_threads=n)
        self._waiting, self._n_waiting = [], 0

    def sort(self) -> tuple[Vocabulary, Ids]:
        """All names, sorted, and the ranks of `ids`; what was placed becomes ranks."""
        one_by_one = self.add_block(strings(self.ids), np.arange(len(self.ids), dtype=np.int32))
        self._merge()
        known = [part.numbers[part.numbers >= 0] for part in self._parts]
        numbers = _distinct_numbers([*self._numbers, *known])
        names, ranks, number_ranks = self._sorted(numbers)
        firsts = np.cumsum([0, *map(len, self._known)])
        n_asked = sum(part.size for part in (*self._numbers, *known))
        rank_of = _lookup(numbers, number_ranks, n_asked)

        def rank(ids: Ids) -> None:
            ids[...] = rank_of(ids)

        def rank_part(part: _Part, numbers: Ids) -> None:
            is_number = part.numbers >= 0
            part.places[~is_number] = ranks[firsts[part.shares] + part.places[~is_number]]
            part.places[is_number] = rank_of(numbers)
            part.ids[...] = part.places[part.ids]

        together(
            *(partial(rank, ids) for ids in self._numbers),
            *(partial(rank_part, *pair) for pair in zip(self._parts, known, strict=True)),
            n_threads=self._n_threads,
        )
        self._numbers, self._parts = [], []
        return Vocabulary(names), one_by_one

    def _sorted(self, numbers: Ids) -> tuple[pa.LargeStringArray, Ids, Ids]:
        """All names, sorted; the ranks of those known, share by share, and of `numbers`."""
        n_known = sum(map(len, self._known))
        if not n_known:
            order = _as_written(numbers)
            ranks = np.empty(len(numbers), np.int32)
            ranks[order] = np.arange(len(numbers), dtype=np.int32)
            return _numbered(self._start or "", numbers[order]), ranks[:0], ranks
        names = [*self._known, *([_numbered(self._start or "", numbers)] if len(numbers) else [])]
        every, ranks = sorted_strings(pa.concat_arrays(names), self._n_threads)
        return every, ranks[:n_known], ranks[n_known:]


def _as_written(numbers: Ids) -> NDArray[np.int64]:
    """The order of numbers, from 0 to 10^9 - 1, by their digits: 1, 10, 100, 11, 2."""
    n_digits = np.searchsorted(_TENS, numbers, side="right").astype(np.int64) + 1
    aligned = numbers * 10 ** (_MOST_DIGITS - n_digits)
    return np.argsort(aligned * 10 + n_digits)


_MOST_DIGITS = 9
_TENS = 10 ** np.arange(1, _MOST_DIGITS)


_SPARSE = 16
"""Numbers are looked up in a table where one in this many is there."""


def _distinct_numbers(numbers: Sequence[Ids]) -> Ids:
    """The different numbers, sorted."""
    top = max((int(part.max()) for part in numbers if part.size), default=-1)
    if _is_sparse(top, sum(part.size for part in numbers)):
        every = np.sort(np.concatenate([part.ravel() for part in numbers]))
        return every[np.diff(every, prepend=-1) > 0]  # np.unique hashes, which is slower
    is_there = np.zeros(top + 1, np.bool_)
    for part in numbers:
        is_there[part] = True
    return np.flatnonzero(is_there).astype(np.int32)


def _lookup(numbers: Ids, values: Ids, n: int) -> Callable[[Ids], Ids]:
    """A function that gives for each of sorted `numbers` its value; `n` will be asked for."""
    top = int(numbers[-1]) if len(numbers) else -1
    if _is_sparse(top, n):
        return lambda part: values[np.searchsorted(numbers, part)]
    table = np.empty(top + 1, np.int32)
    table[numbers] = values
    return lambda part: table[part]


def _is_sparse(top: int, n: int) -> bool:
    """Whether a table of the numbers up to `top` is too large for `n` of them."""
    return top >= _SPARSE * n + _FEW


def _numbered(start: str, numbers: Ids) -> pa.LargeStringArray:
    """The names of numbers behind a start."""
    before, nothing = string_scalar(start, pa.string()), string_scalar("", pa.string())
    written = numbers_array(numbers).cast(pa.string())
    names = pc.binary_join_element_wise(before, written, nothing)
    return names.cast(pa.large_string())
