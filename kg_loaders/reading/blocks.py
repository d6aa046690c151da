"""Many triples or texts at once, in columns: what readers that split whole blocks of lines yield.

They stand for `Triple` and `Text` records; `kg_loaders.assembly` takes either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
    """Texts about entities, or about relations, in columns; `counts` of all of them are 0.

    Attributes:
        node_ids: int32 `[text]`, places in `nodes`.
        kinds: uint8 `[text]`, a `TextKind` each.
        values: the texts themselves, `[text]`.
        language_ids: int32 `[text]`, places in `languages`.
    """

    nodes: pa.StringArray
    node_ids: Ids
    kinds: NDArray[np.uint8]
    values: pa.StringArray
    language_ids: Ids
    languages: tuple[str, ...]
    is_relation: bool = False

    def records(self) -> list[Text]:
        """The same as records."""
        nodes, values = self.nodes.to_pylist(), self.values.to_pylist()
        columns: Any = zip(
            self.node_ids.tolist(), self.kinds.tolist(), self.language_ids.tolist(), strict=True
        )
        return [
            Text(nodes[node], TextKind(kind), value, self.languages[language], 0, self.is_relation)
            for (node, kind, language), value in zip(columns, values, strict=True)
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
    return names.take(pa.array(used)), places[ids]
