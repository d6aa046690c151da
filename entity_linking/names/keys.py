"""What the keys of an index begin with, as a hash table: many texts are searched at once.

A key is a run of folded words. The table has a cell for each run of words that some key begins
with: 62 bits of the run's hash and, in the low two bits, whether the run is a key (1) and whether a
longer key begins with it (2). The first cell says how many places hashes are spread over by their
high bits. Other cells lie at their place or, where it is taken, as soon after it as there is room,
in ascending order; empty ones are 2**64 - 1, and so is the last.

A word's hash is `sum code[i] B**i` over its characters, a run's is that of the run without its last
word, times `B`, plus that word's, `mixed`; all modulo 2**64. Runs that share a hash are taken for
each other, so what is found must be looked up as a string; what is not found is not a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numpy_of

IS_KEY, GOES_ON = 1, 2
_FLAGS = np.uint64(IS_KEY | GOES_ON)
_HASH = ~_FLAGS
EMPTY = np.uint64(2**64 - 1)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
_MIXER = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_FEW = 2**19  # powers that are made once: as many as most batches of texts have characters
KEYS_PER_CHUNK = 32_768


# ---- hashes --------------------------------------------------------------------------------------
def token_hashes(
    codes: NDArray[np.uint32], begins: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The hashes of the stretches `begins[i]` to `stops[i]` of `codes`, in order and apart.

    >>> words = np.frombuffer("to be to".encode("utf-32-le"), "<u4")
    >>> first, other, last = token_hashes(words, np.array([0, 3, 6]), np.array([2, 5, 8]))
    >>> bool(first == last), bool(first == other)
    (True, False)
    """
    n = len(codes)
    sums = np.zeros(n + 1, np.uint64)
    np.cumsum(_powers(_BASE, n)[:n] * codes, out=sums[1:])
    return (sums.take(stops) - sums.take(begins)) * _powers(_INVERSE, n).take(begins)


def _powers(base: np.uint64, n: int) -> NDArray[np.uint64]:
    """Of 0 to `n` at least."""
    return _few_powers(base) if n < _FEW else _made_powers(base, n + 1)


@cache
def _few_powers(base: np.uint64) -> NDArray[np.uint64]:
    return _made_powers(base, _FEW)


def _made_powers(base: np.uint64, n: int) -> NDArray[np.uint64]:
    powers = np.full(n, base)
    powers[0] = 1
    return np.cumprod(powers, out=powers)


def mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of these hashes made to depend on all; the low two are 0."""
    hashes = hashes ^ (hashes >> _HALF)
    hashes *= _MIXER
    hashes ^= hashes >> _HALF
    hashes *= _MIXER
    return (hashes ^ (hashes >> _HALF)) & _HASH


def _longer(runs: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return mixed(runs * _BASE + words)


# ---- tables --------------------------------------------------------------------------------------
def key_table(keys: pa.LargeStringArray) -> NDArray[np.uint64]:
    """The table of distinct marked keys (`entity_linking.surfaces.marked_keys`), uint64 `[cell]`.

    >>> table = key_table(pa.array([" new ", " new  york "], pa.large_string()))
    >>> table[0], sorted(np.bitwise_and(table[1:][table[1:] != EMPTY], 3).tolist())
    (np.uint64(4), [1, 3])
    """
    chunks = [keys[i : i + KEYS_PER_CHUNK] for i in range(0, len(keys), KEYS_PER_CHUNK)]
    cells = np.concatenate([np.zeros(0, np.uint64), *map(_runs_of, chunks)])
    cells.sort()
    hashes = cells & _HASH
    new = np.append(0, np.flatnonzero(hashes[1:] != hashes[:-1]) + 1)
    return spread(np.bitwise_or.reduceat(cells, new) if len(cells) else cells)


def _runs_of(keys: pa.LargeStringArray) -> NDArray[np.uint64]:
    """Hash and flags of every run of words that these keys begin with, as often as they do."""
    codes = np.frombuffer("".join(keys.to_pylist()).encode("utf-32-le"), "<u4")
    is_blank = codes == ord(" ")
    begins, stops = (np.flatnonzero(is_blank[:-1] != is_blank[1:]) + 1).reshape(-1, 2).T
    words = token_hashes(codes, begins, stops)
    ends = np.cumsum(numpy_of(pc.utf8_length(keys)).astype(np.int64))
    last = np.searchsorted(begins, ends)
    return np.concatenate(list(_levels(words, np.concatenate([[0], last[:-1]]), last)))


def _levels(
    words: NDArray[np.uint64], at: NDArray[np.int64], last: NDArray[np.int64]
) -> Iterator[NDArray[np.uint64]]:
    """For 1, 2, … words the runs of the keys that have so many; words of a key are `at:last`."""
    runs = mixed(words[at])
    while len(at):
        goes_on = at + 1 < last
        yield runs | np.where(goes_on, np.uint64(GOES_ON), np.uint64(IS_KEY))
        at, last = at[goes_on] + 1, last[goes_on]
        runs = _longer(runs[goes_on], words[at])


def spread(cells: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A table with ascending `cells` at their places, at most half full."""
    n_places = max(2 * len(cells), 1)
    order = np.arange(len(cells))
    places = np.maximum.accumulate(_places(cells, n_places) - order) + order
    table = np.full(max(n_places, *places[-1:].tolist(), 0) + 2, EMPTY)
    table[0] = n_places
    table[places] = cells
    return table


def _places(hashes: NDArray[np.uint64], n_places: int) -> NDArray[np.int64]:
    return (((hashes >> _HALF) * np.uint64(n_places)) >> _HALF).astype(np.int64) + 1


def require_key_table(table: NDArray[np.uint64]) -> None:
    """ValueError for a table that cannot be searched."""
    if len(table) < 2 or table[-1] != EMPTY or not 1 <= table[0] < len(table):
        raise ValueError("key_table does not begin with its number of places and end empty")


# ---- search --------------------------------------------------------------------------------------
def find_keys(
    tables: Sequence[NDArray[np.uint64]], words: NDArray[np.uint64], limits: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where keys may stand: the first word of each and the one after its last, int64 `[found]`.

    `words` are the hashes of the words of many texts, those of text i from `limits[i]` to
    `limits[i + 1]`. What begins earlier comes first, of what begins together the longest.
    """
    last = np.repeat(limits[1:], np.diff(limits))
    at = np.arange(len(words))
    runs, stops = mixed(words), at + 1
    matches = [(at[:0], at[:0])]
    while len(at) and tables:
        flags = reduce(np.bitwise_or, [_look_up(table, runs) for table in tables])
        keys = np.flatnonzero((flags & IS_KEY).view(bool))
        matches.append((at[keys], stops[keys]))
        longer = np.flatnonzero((flags // GOES_ON).view(bool))
        longer = longer[stops[longer] < last[at[longer]]]
        at, stops = at[longer], stops[longer]
        runs = _longer(runs[longer], words[stops])
        stops += 1
    first, after = map(np.concatenate, zip(*reversed(matches), strict=True))
    order = np.argsort(first, kind="stable")
    return first[order], after[order]


def _look_up(table: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The flags of these runs of words, 0 for those that no key begins with."""
    _, cells = find_cells(table, hashes)
    cells ^= hashes
    cells[cells > _FLAGS] = 0
    return cells.astype(np.uint8)


def find_cells(
    table: NDArray[np.uint64], hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Where in a table these hashes lie or would lie, and the cells that are there."""
    places = _places(hashes, int(table[0]))
    cells = table.take(places)
    left = np.flatnonzero(cells < hashes)
    while len(left):
        hashes_left, places_left = hashes[left], places[left]
        places_left += 1
        cells_left = table.take(places_left)
        places[left], cells[left] = places_left, cells_left
        left = left[cells_left < hashes_left]
    return places, cells


# ---- one at a time -------------------------------------------------------------------------------
_BITS = 2**64 - 1
_INT_BASE, _INT_MIXER, _INT_HASH = int(_BASE), int(_MIXER), int(_HASH)


def word_hash(word: str) -> int:
    """The hash of one word, as `token_hashes` makes those of many.

    >>> codes = np.frombuffer("york".encode("utf-32-le"), "<u4")
    >>> word_hash("york") == token_hashes(codes, np.array([0]), np.array([4]))[0]
    np.True_
    """
    total = 0
    for char in reversed(word):
        total = (total * _INT_BASE + ord(char)) & _BITS
    return total


def run_hash(word: int, run: int = 0) -> int:
    """The hash of the run with hash `run` and one more word; of the word alone without a run."""
    value = (run * _INT_BASE + word) & _BITS
    value ^= value >> 32
    value = value * _INT_MIXER & _BITS
    value ^= value >> 32
    value = value * _INT_MIXER & _BITS
    return (value ^ (value >> 32)) & _INT_HASH


def run_flags(table: memoryview, run: int) -> int:
    """`IS_KEY` and `GOES_ON` of a run of words in a table, given as its `data`; 0 for no key's."""
    at = ((run >> 32) * table[0] >> 32) + 1
    cell: int = table[at]
    while cell < run:
        at += 1
        cell = table[at]
    flags = cell ^ run
    return flags if flags <= IS_KEY | GOES_ON else 0
