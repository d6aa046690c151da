"""Names of few bytes as numbers of 64 bits, which are made distinct faster than strings.

Fields that share a start and have at most eight bytes behind it, as `P31` or `/m/0d0vqn`, fit one
in a number each, exactly: nothing is hashed that strings would have to confirm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numbers_array, numpy_of
from kg_loaders.reading.blocks import Ids

Places = NDArray[np.int64]
_WORD = 8
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], np.uint64)


def packed_names(
    data: bytes, fields: Sequence[tuple[Places, Places]]
) -> tuple[pa.StringArray, list[Ids]] | None:
    """The distinct names of the `fields` of `data`, and the places of each field's among them.

    A field is its starts and its ends. None where names are longer, or do not share a start.

    >>> field = np.array([0, 4, 8]), np.array([3, 7, 11])
    >>> names, (ids,) = packed_names(b"P31 P17 P31 end", [field])
    >>> names.to_pylist(), ids.tolist()
    (['P31', 'P17'], [0, 1, 0])
    """
    lengths = [ends - starts for starts, ends in fields]
    n_start = max(max(int(each.max()) for each in lengths) - _WORD, 0)
    if n_start > min(int(each.min()) for each in lengths) or len(data) < _WORD:
        return None
    first = int(fields[0][0][0])
    start = data[first : first + n_start]
    if b"\0" in data or not all(_begin_with(data, starts, start) for starts, _ in fields):
        return None
    keys = [
        _words(data, starts + n_start) & _MASKS[length - n_start]
        for (starts, _), length in zip(fields, lengths, strict=True)
    ]
    encoded = numbers_array(np.concatenate(keys)).dictionary_encode()
    ids = numpy_of(encoded.indices)
    limits = np.cumsum([len(each) for each in keys])[:-1]
    return _unpacked(start, numpy_of(encoded.dictionary)), np.split(ids, limits)


def _words(data: bytes, places: Places) -> NDArray[np.uint64]:
    """The eight bytes from each of `places` on, the first the lowest, 0 beyond the end."""
    windows = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
    if not len(places) or int(places.max()) <= len(data) - _WORD:
        return windows[places]
    inside = np.minimum(places, len(data) - _WORD)
    missing = np.minimum(places - inside, _WORD).astype(np.uint64)
    words = windows[inside]
    for n in range(1, _WORD + 1):
        beyond = missing == n
        words[beyond] = words[beyond] >> np.uint64(8 * n) if n < _WORD else 0
    return words


def _begin_with(data: bytes, places: Places, start: bytes) -> bool:
    """Whether all of `places` have `start`."""
    for offset in range(0, len(start), _WORD):
        part = start[offset : offset + _WORD]
        word = np.uint64(int.from_bytes(part, "little"))
        if ((_words(data, places + offset) & _MASKS[len(part)]) != word).any():
            return False
    return True


def _unpacked(start: bytes, keys: NDArray[np.uint64]) -> pa.StringArray:
    """The names of packed keys, `start` before each."""
    n_bytes = np.zeros(len(keys), np.int64)
    for n in range(_WORD):
        n_bytes += keys > _MASKS[n]  # no name has a NUL
    table = np.empty((len(keys), len(start) + _WORD), np.uint8)
    table[:, : len(start)] = np.frombuffer(start, np.uint8)
    table[:, len(start) :] = keys.astype("<u8")[:, None].view(np.uint8)
    lengths = n_bytes + len(start)
    text = table[np.arange(table.shape[1]) < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(keys), buffers)
