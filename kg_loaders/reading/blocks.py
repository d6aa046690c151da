"""Many triples or texts at once, in columns: what readers that split whole blocks of lines yield.

They stand for `Triple` and `Text` records; `kg_loaders.assembly` takes either.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numbers_array, numpy_of
from kg_loaders.records import Text, TextKind, Triple

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class TripleBlock:
    """Triples by places in lists of names, which may hold a name twice.

    Attributes:
        ends: int32 `[triple 2]`, head and tail, places in `entities`.
        relation_ids: int32 `[triple]`, places in `relations`.
        entities: the names; or, as in "Q", the start of all names, where `ends` are the numbers
            behind it.
        relations: the names.
    """

    ends: Ids
    relation_ids: Ids
    entities: pa.StringArray | str
    relations: pa.StringArray

    def records(self) -> list[Triple]:
        """The same as records."""
        if isinstance(self.entities, str):
            ends = [[f"{self.entities}{n}" for n in row] for row in self.ends.tolist()]
        else:
            names = self.entities.to_pylist()
            ends = [[names[n] for n in row] for row in self.ends.tolist()]
        relations = self.relations.to_pylist()
        return [
            Triple(head, relations[relation], tail)
            for (head, tail), relation in zip(ends, self.relation_ids.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class TextBlock:
    """Texts about entities, or about relations, in columns.

    Attributes:
        node_ids: int32 `[text]`, places in `nodes`.
        kinds: uint8 `[text]`, a `TextKind` each.
        values: the texts themselves, `[text]`.
        language_ids: int32 `[text]`, places in `languages`.
        counts: int32 `[text]`, how often each was seen; None where no source says.
    """

    nodes: pa.StringArray
    node_ids: Ids
    kinds: NDArray[np.uint8]
    values: pa.StringArray
    language_ids: Ids
    languages: tuple[str, ...]
    is_relation: bool = False
    counts: Ids | None = None

    def records(self) -> list[Text]:
        """The same as records."""
        nodes, values = self.nodes.to_pylist(), self.values.to_pylist()
        counts = np.zeros(len(values), np.int32) if self.counts is None else self.counts
        rows: Any = zip(
            self.node_ids.tolist(), self.kinds.tolist(), values, self.language_ids.tolist(),
            counts.tolist(), strict=True,
        )  # fmt: skip
        return [
            Text(nodes[node], TextKind(kind), value, self.languages[language], n, self.is_relation)
            for node, kind, value, language, n in rows
        ]


Block = TripleBlock | TextBlock


def strings_between(data: bytes, cuts: NDArray[Any]) -> pa.StringArray:
    """Return the strings between neighbouring places of `cuts` in `data`, which is not copied.

    `data` is UTF-8 and `cuts [n+1]` do not descend and part no character.

    >>> strings_between(b"abc", np.array([0, 1, 3])).to_pylist()
    ['a', 'bc']
    """
    offsets = np.ascontiguousarray(cuts, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def numbers_between(
    array: NDArray[np.uint8], starts: NDArray[Any], ends: NDArray[Any]
) -> NDArray[np.int32]:
    """Return the numbers that stand in `array` between places, -1 where there is none.

    A number is at most nine ASCII digits, the first no 0 unless it is the only one.

    >>> text = np.frombuffer(b"42 042 x", np.uint8)
    >>> numbers_between(text, np.array([0, 3, 7]), np.array([2, 6, 8]))
    array([42, -1, -1], dtype=int32)
    """
    n_digits = ends - starts
    is_number = (n_digits >= 1) & (n_digits <= _MOST_DIGITS)
    numbers = np.zeros(len(starts), np.int32)
    if not is_number.any():
        return numbers - np.int32(1)
    for position in range(int(n_digits[is_number].max())):
        digits = np.where(position < n_digits, array[ends - 1 - position] - _ZERO, 0)
        is_number &= digits <= 9
        numbers += digits.astype(np.int32) * np.int32(10**position)
    is_number &= (n_digits == 1) | (array[np.minimum(starts, len(array) - 1)] != _ZERO)
    return np.where(is_number, numbers, np.int32(-1))


_ZERO = ord("0")
_MOST_DIGITS = 9  # so that every number fits 31 bits


_ENDS_IN_NUMBER = re.compile("(.*?)(0|[1-9][0-9]{0,8})", re.DOTALL)
_LOOKED_AT = 100


def start_of(names: pa.StringArray) -> str | None:
    """Return what most of the first names have before a number; None if most have none.

    >>> start_of(pa.array(["Q1", "Q90", "x"]))
    'Q'
    """
    some = names[:_LOOKED_AT].to_pylist()
    starts = Counter(match[1] for name in some if (match := _ENDS_IN_NUMBER.fullmatch(name)))
    start, n = starts.most_common(1)[0] if starts else ("", 0)
    return start if 2 * n > len(some) else None


def numbers_behind(start: str | None, names: pa.StringArray) -> Ids:
    """Return the number that each name has behind `start`, -1 where none, int32 `[name]`.

    >>> numbers_behind("Q", pa.array(["Q90", "Q090", "P1"]))
    array([90, -1, -1], dtype=int32)
    """
    if start is None or not len(names):
        return np.full(len(names), -1, np.int32)
    offsets = np.frombuffer(names.buffers()[1], _OFFSETS[names.type])
    offsets = offsets[names.offset : names.offset + len(names) + 1].astype(np.int64)
    data = np.frombuffer(names.buffers()[2] or b"", np.uint8)
    behind = offsets[:-1] + len(start.encode())
    numbers = numbers_between(data, np.minimum(behind, offsets[1:]), offsets[1:])
    has_start = numpy_of(pc.starts_with(names, start))
    return np.where(has_start, numbers, np.int32(-1))


_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}


def distinct_ids(ids: Ids, n: int) -> NDArray[np.int64]:
    """Return the different ids, sorted, of ids below `n`.

    >>> distinct_ids(np.array([2, 0, 2], np.int32), 4)
    array([0, 2])
    """
    is_used = np.zeros(n, np.bool_)
    is_used[ids.ravel()] = True
    return np.flatnonzero(is_used)


def taken(names: pa.StringArray, ids: Ids) -> tuple[pa.StringArray, Ids]:
    """Return the names that `ids` name, in the order of `names`, and the ids among them.

    >>> taken(pa.array(["a", "b", "c"]), np.array([2, 0], np.int32))[1]
    array([1, 0], dtype=int32)
    """
    used = distinct_ids(ids, len(names))
    if len(used) == len(names):
        return names, ids
    places = np.empty(len(names), np.int32)
    places[used] = np.arange(len(used), dtype=np.int32)
    return names.take(numbers_array(used)), places[ids]
