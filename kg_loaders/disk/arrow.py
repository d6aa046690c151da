"""Arrow arrays of what numpy and Python hold, without `pyarrow.array`.

That asks whether its argument is a pandas object and imports pandas for it, where that is
installed: a quarter of a second in every process that reads a file or links a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LONGEST = 2**31 - 1
"""Bytes of all strings in an array of `pyarrow.string()`."""


def numbers_array(values: NDArray[Any]) -> pa.Array:
    """Return whole numbers, or others, `[n]` as an array of their type, not copied if contiguous.

    >>> numbers_array(np.array([3, 5], np.int32)).type
    DataType(int32)
    """
    held = np.ascontiguousarray(values)
    buffers = [None, pa.py_buffer(held)]
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), len(held), buffers)


def mask_array(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """Return bools `[n]` as an array.

    >>> mask_array(np.array([True, False])).to_pylist()
    [True, False]
    """
    bits = np.packbits(mask, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def strings_array(values: Iterable[str], type: pa.DataType | None = None) -> Any:
    """Return strings as an array of `type`: `pyarrow.string()`, or `large_string()` (default).

    Raises `UnicodeEncodeError` for half a surrogate pair.

    >>> strings_array(["a", "é"]).to_pylist()
    ['a', 'é']
    """
    type = pa.large_string() if type is None else type
    rows: list[Any] = list(values)
    joined: Any = "".join(rows)
    if joined.isascii():  # then characters are bytes
        n_bytes, joined = _lengths(rows), joined.encode()
    else:
        n_bytes, joined = _encoded(rows)
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(n_bytes, out=offsets[1:])
    if type == pa.string():
        if offsets[-1] > LONGEST:
            raise OverflowError(f"{offsets[-1]} bytes of text do not fit one array of {type}")
        offsets = offsets.astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(type, len(rows), buffers)


def _encoded(rows: list[str]) -> tuple[NDArray[np.int64], bytes]:
    """The bytes of each, and all of them: encoded together, which is twice as fast."""
    joined = "\0".join(rows).encode()
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)
    if len(ends) >= len(rows):  # NUL is in some
        encoded = [row.encode() for row in rows]
        return _lengths(encoded), b"".join(encoded)
    bounds = np.concatenate([[-1], ends, [len(joined)]])
    return np.diff(bounds) - 1, joined.replace(b"\0", b"")


def _lengths(rows: Sequence[Sized]) -> NDArray[np.int64]:
    return np.fromiter(map(len, rows), np.int64, len(rows))


def string_scalar(value: str, type: pa.DataType | None = None) -> Any:
    """Return a string as the functions of `pyarrow.compute` take it beside arrays.

    >>> string_scalar("a").as_py()
    'a'
    """
    return strings_array([value], type)[0]


def numpy_of(array: pa.Array) -> NDArray[Any]:
    """Return the numbers or bools of an array without nulls, `[n]`; numbers are not copied.

    >>> numpy_of(mask_array(np.array([True, False, True]))[1:])
    array([False,  True])
    >>> numpy_of(numbers_array(np.array([3, 5, 8], np.int32))[1:])
    array([5, 8], dtype=int32)
    """
    if array.null_count:
        raise ValueError(f"{array.null_count} of {len(array)} values are null")
    data, first, n = array.buffers()[1], array.offset, len(array)
    if array.type == pa.bool_():
        if not n:
            return np.zeros(0, np.bool_)
        bits = np.frombuffer(data, np.uint8)
        return np.unpackbits(bits, count=first + n, bitorder="little")[first:].view(np.bool_)
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not n:
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, n, first * dtype.itemsize)


def places_of(array: pa.Array) -> NDArray[np.int32]:
    """Return places, such as `pyarrow.compute.index_in` finds them, int32 `[n]`, -1 for nulls.

    >>> import pyarrow.compute as pc
    >>> places_of(pc.index_in(strings_array(["b", "x"]), strings_array(["a", "b"])))
    array([ 1, -1], dtype=int32)
    """
    is_there = numpy_of(array.is_valid())
    if not len(array):
        return np.zeros(0, np.int32)
    first = 4 * array.offset
    places = np.frombuffer(array.buffers()[1], np.int32, len(array), first)
    return np.where(is_there, places, np.int32(-1))


REUSED_BYTES = 16 * 1024 * 1024


def reuse_freed_memory() -> None:
    """Let the C library keep freed pieces of up to 16 MiB for the next block of a file.

    glibc raises M_MMAP_THRESHOLD to the size of a piece that is freed, and this one is never
    touched. Without it the pages of every block are fetched from the system anew: 6 % of the time
    of a dump.
    """
    pa.allocate_buffer(REUSED_BYTES, memory_pool=pa.system_memory_pool())
