"""`Vocabulary`: sorted, frozen identifiers in one Arrow array; the id of a name is its rank."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.counting import counted
from kg_loaders.disk.arrow import numbers_array, numpy_of, places_of, strings_array
from kg_loaders.errors import DamageError, NodeIdError, UnknownNodeError
from kg_loaders.spelling import did_you_mean

MOST_COMPARED = 1_000_000
"""Names among which near ones are looked for when one is unknown."""


class Vocabulary:
    """Sorted, frozen strings; the id of a string is its rank.

    >>> v = Vocabulary.of(["Q2", "Q1", "Q2"])
    >>> v.id("Q2"), v.name(0), len(v)
    (1, 'Q1', 2)
    >>> v.ids(["Q1", "Q3", "Q2"])
    array([ 0, -1,  1], dtype=int32)
    """

    def __init__(self, names: pa.LargeStringArray) -> None:
        self._names = names

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        return cls(strings(sorted(dict.fromkeys(names))))

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return (name.as_py() for name in self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __repr__(self) -> str:
        return f"Vocabulary({counted(len(self), 'names')})"

    @property
    def array(self) -> pa.LargeStringArray:
        """All names in id order."""
        return self._names

    def name(self, index: int) -> str:
        """The identifier with this id; `NodeIdError` for any other value."""
        return str(self._names[node_id(index, len(self))].as_py())

    def find(self, name: str) -> int | None:
        """The id of `name`, or None."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._names[middle].as_py() < name:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._names[low].as_py() == name else None

    def id(self, name: str) -> int:
        """The id of `name`; `UnknownNodeError` when it is not here."""
        index = self.find(name)
        if index is None:
            suggestion = did_you_mean(name, self if len(self) <= MOST_COMPARED else ())
            raise UnknownNodeError(
                f"{name!r} is not among the {counted(len(self), 'names')} of this graph{suggestion}"
            )
        return index

    def ids(self, names: Sequence[str] | pa.LargeStringArray) -> NDArray[np.int32]:
        """Ids of many names, int32 `[n]`, -1 where a name is not here."""
        is_few = len(names) * 4 < len(self)  # a binary search beats one hash table
        if is_few and len(names) < 20:
            few = names.to_pylist() if isinstance(names, pa.Array) else names
            ids = (self.find(name) for name in few)
            return np.array([-1 if index is None else index for index in ids], np.int32)
        array = names if isinstance(names, pa.Array) else strings(names)
        if is_few:
            return self._search(array)
        return places_of(pc.index_in(array, self._names))

    def _search(self, names: pa.LargeStringArray) -> NDArray[np.int32]:
        """`ids` by binary search for all names in step."""
        low, high = np.zeros(len(names), np.int64), np.full(len(names), len(self))
        last = len(self) - 1
        for _ in range(len(self).bit_length()):
            middle = (low + high) // 2
            candidates = self._names.take(numbers_array(np.minimum(middle, last)))
            is_less = numpy_of(pc.less(candidates, names))
            low = np.where(is_less & (low < high), middle + 1, low)
            high = np.where(is_less, high, middle)
        candidates = self._names.take(numbers_array(np.minimum(low, last)))
        is_there = (low <= last) & numpy_of(pc.equal(candidates, names))
        return np.where(is_there, low, -1).astype(np.int32)


def node_id(value: Any, n_nodes: int) -> int:
    """`value` as an id of one of `n_nodes`; `NodeIdError` that says how a name becomes one.

    >>> node_id("Q1", 3)
    Traceback (most recent call last):
    kg_loaders.errors.NodeIdError: 'Q1' is not an id but a str; graph.entities.id('Q1') gives the id
    """
    if type(value) is int and 0 <= value < n_nodes:  # most calls, in a third of the time
        return value
    try:
        index = operator.index(value)
    except TypeError as error:
        named = repr(value) if isinstance(value, str) else "name"
        raise NodeIdError(
            f"{value!r} is not an id but a {type(value).__name__}; "
            f"graph.entities.id({named}) gives "
            "the id"
        ) from error
    if not 0 <= index < n_nodes:
        raise NodeIdError(f"id {index} is outside: there are {n_nodes}, from 0 on")
    return index


def rows_of_ids(triples: Any) -> NDArray[np.int64]:
    """`triples` as int64 `[n 3]`; `NodeIdError` for names, or where three do not make a row."""
    try:
        return np.asarray(triples, np.int64).reshape(-1, 3)
    except (TypeError, ValueError) as error:
        raise NodeIdError(
            f"{triples!r} is not an array of ids [n 3], head, relation and tail; an entity "
            f"is found by "
            "its identifier with graph.entities.find(NAME)"
        ) from error


def strings(values: Iterable[str]) -> pa.LargeStringArray:
    """One Arrow array; `DamageError` when a value holds half a surrogate pair."""
    try:
        return strings_array(values)
    except UnicodeEncodeError as error:
        raise DamageError(
            f"{error.object[:80]!r} holds half a surrogate pair, which is not text; "
            "read the source as UTF-8"
        ) from error


def update_with_strings(digest: Any, values: pa.LargeStringArray) -> None:
    """Feed a hash with lengths and bytes, the same however the array was cut or padded."""
    _, offset_buffer, data = values.buffers()
    if len(values) == 0:
        digest.update(bytes(8))
        return
    offsets = np.frombuffer(offset_buffer, "<i8")[values.offset : values.offset + len(values) + 1]
    digest.update(np.ascontiguousarray(offsets - offsets[0]))
    if offsets[-1] > offsets[0]:
        digest.update(memoryview(data)[offsets[0] : offsets[-1]])
