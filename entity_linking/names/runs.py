"""`Runs`: stretches of many texts that are keys of an index, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from entity_linking.names.keys import find_keys, token_hashes
from entity_linking.names.known import WORTH, KnownSurfaces
from entity_linking.surfaces import Stretches, cut_codes, lengths_of, side_by_side


class Runs(NamedTuple):
    """What begins earlier comes first, of what begins together the longest; int64 `[run]` each.

    A run is the words `first` to `stops`, counted over all texts, and `starts` to `ends` of the
    characters of text `owners`; `surfaces` is its number among the known ones, -1 if it is new.
    """

    first: NDArray[np.int64]
    stops: NDArray[np.int64]
    owners: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    surfaces: NDArray[np.int64]

    def take(self, places: NDArray[np.int64]) -> Runs:
        """Some of them."""
        return Runs(*(column.take(places) for column in self))

    def alone(self) -> NDArray[np.bool_]:
        """bool `[run]`, whether no other run shares a word with it."""
        is_alone = np.ones(len(self.first), bool)
        is_clear = self.first[1:] >= np.maximum.accumulate(self.stops)[:-1]
        is_alone[1:] &= is_clear
        is_alone[:-1] &= is_clear
        return is_alone

    def by_text(self, n_texts: int) -> list[slice]:
        """Where the runs of each text stand."""
        limits = np.searchsorted(self.owners, np.arange(n_texts + 1)).tolist()
        return [slice(a, b) for a, b in pairwise(limits)]

    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each in its text."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))


def find_runs(
    tables: Sequence[NDArray[np.uint64]], texts: Sequence[str], known: KnownSurfaces
) -> tuple[Runs, Stretches]:
    """The runs that are keys by these tables and are not known to mean nothing; and all words."""
    codes, lengths = side_by_side(texts), lengths_of(texts)
    cut = cut_codes(texts, codes)
    words = token_hashes(cut.codes, cut.begins, cut.stops)
    first, stops = find_keys(tables, words, cut.limits)
    owners = np.searchsorted(cut.limits, first, "right") - 1
    starts, ends = cut.starts.take(first), cut.ends.take(stops - 1)
    if len(first) < WORTH:
        return Runs(first, stops, owners, starts, ends, np.full(len(first), -1)), cut
    offsets = (np.cumsum(lengths + 1) - lengths).take(owners)
    surfaces = known.numbers(codes, offsets + starts, offsets + ends)
    runs = Runs(first, stops, owners, starts, ends, surfaces)
    return runs.take(np.flatnonzero(~known.is_refused[surfaces])), cut
