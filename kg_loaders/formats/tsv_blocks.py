"""Regular lines of tab-separated triples, a block at a time.

A line is regular that has three fields, none of them empty. Wikidata's identifiers (`Q90`) are read
as numbers where all heads and tails of a block are such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numpy_of
from kg_loaders.reading.blocks import Ids, TripleBlock, numbers_between, strings_between, taken
from kg_loaders.reading.lines import LineBlock, fault_of
from kg_loaders.reading.packed import packed_names

_TAB, _LF, _CR, _Q = b"\t\n\rQ"


def split_triples(
    block: LineBlock, order: str, max_line_bytes: int, *, asides: Sequence[int] = ()
) -> tuple[TripleBlock | None, NDArray[np.bool_]]:
    """The triples of regular lines, None if there are none, and which lines are odd `[line]`.

    The lines `asides`, from 0, are odd: they are headers.
    """
    data = block.with_line_ends()
    if fault_of(data, nul_is_text=True):
        return None, np.ones(block.n_lines, np.bool_)
    array = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero((array == _TAB) | (array == _LF))
    last = np.flatnonzero(array[marks] == _LF)
    ends = marks[last]
    starts = np.concatenate([[0], ends[:-1] + 1])
    regular = np.diff(last, prepend=-1) == 3
    regular &= (array[ends - 1] != _CR) & (ends - starts <= max_line_bytes)
    first, second = marks[np.maximum(last - 2, 0)], marks[last - 1]
    regular &= (starts < first) & (first + 1 < second) & (second + 1 < ends)
    regular[[*asides]] = False
    if not regular.any():
        return None, ~regular
    columns = (starts, first, first + 1, second, second + 1, ends)
    if not regular.all():
        columns = tuple(column[regular] for column in columns)
    return _triples(data, array, columns, order), ~regular


def _triples(
    data: bytes, array: NDArray[np.uint8], columns: tuple[NDArray[Any], ...], order: str
) -> TripleBlock:
    """The triples of fields from `columns[2 * i]` to `columns[2 * i + 1]`, named by `order`."""
    head, relation, tail = (order.index(letter) for letter in "hrt")
    fields = [(columns[2 * i], columns[2 * i + 1]) for i in range(3)]
    heads = _q_numbers(array, *fields[head])
    tails = None if heads is None else _q_numbers(array, *fields[tail])
    packed = packed_names(data, [fields[relation]])
    if heads is not None and tails is not None:
        ends = np.stack([heads, tails], axis=1)
        if packed is not None:
            return TripleBlock(ends, packed[1][0], "Q", packed[0])
        codes, names = _encoded(data, np.stack(fields[relation], axis=1))
        relations, relation_ids = taken(names, codes[:, 0])
        return TripleBlock(ends, relation_ids, "Q", relations)
    both = None if packed is None else packed_names(data, [fields[head], fields[tail]])
    if packed is not None and both is not None:
        return TripleBlock(np.stack(both[1], axis=1), packed[1][0], both[0], packed[0])
    codes, names = _encoded(data, np.stack(columns, axis=1))
    entities, ends = taken(names, codes[:, [2 * head, 2 * tail]])
    relations, relation_ids = taken(names, codes[:, 2 * relation])
    return TripleBlock(ends, relation_ids, entities, relations)


def _encoded(data: bytes, cuts: NDArray[Any]) -> tuple[Ids, pa.StringArray]:
    """Ids of the pieces that begin at `cuts [line n]`, int32 of that shape, and their names."""
    pieces = strings_between(data, np.append(cuts, cuts[-1, -1])).dictionary_encode()
    return numpy_of(pieces.indices).reshape(cuts.shape), pieces.dictionary


def _q_numbers(
    array: NDArray[np.uint8], starts: NDArray[Any], ends: NDArray[Any]
) -> NDArray[np.int32] | None:
    """The numbers of fields that are all a Q and a number as Wikidata writes it; else None."""
    if (array[starts] != _Q).any():
        return None
    numbers = numbers_between(array, starts + 1, ends)
    return None if (numbers < 0).any() else numbers
