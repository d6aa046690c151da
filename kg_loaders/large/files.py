"""Columns that are written as they come and mapped in the end: they are never in memory whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class ArrayFile:
    """Numbers of one type, one after the other."""

    def __init__(self, path: Path, dtype: type[np.generic]) -> None:
        self._path, self._dtype, self._file = path, np.dtype(dtype), path.open("wb")
        self.n_values = 0

    def add(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.n_values += values.size

    def mapped(self) -> NDArray[Any]:
        """All that was added."""
        self._file.close()
        if not self.n_values:
            return np.zeros(0, self._dtype)
        return np.asarray(np.memmap(self._path, self._dtype, "r"))


class DegreesFile:
    """How often each of `n_nodes` is counted, in a file: a graph may have more than memory holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     degrees = DegreesFile(Path(folder) / "out", 3)
    ...     degrees.count(np.array([2, 0, 2]))
    ...     degrees.offsets().tolist()
    [0, 1, 1, 3]
    """

    def __init__(self, path: Path, n_nodes: int) -> None:
        self._counts = np.memmap(path, np.int64, "w+", shape=(n_nodes + 1,))

    def count(self, nodes: NDArray[Any]) -> None:
        """Take in some nodes; the cost is theirs alone, whatever the number of all nodes."""
        used, counts = np.unique(nodes, return_counts=True)
        self._counts[used + 1] += counts

    def offsets(self) -> NDArray[np.int64]:
        """Where the rows of each node begin, and where the last one's end."""
        np.cumsum(self._counts, out=self._counts)
        return np.asarray(self._counts)


class StringsFile:
    """Strings, from arrays of their bytes."""

    def __init__(self, path: Path) -> None:
        self._path, self._data = path, path.open("wb")
        self._offsets = ArrayFile(path.with_name(path.name + "-offsets"), np.int64)
        self._offsets.add(np.zeros(1, np.int64))
        self._n_bytes = 0

    def add(self, values: pa.Array) -> None:
        """Take in what is UTF-8."""
        column = values.cast(pa.large_binary())
        if not len(column):
            return
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        self._data.write(memoryview(data)[ends[0] : ends[-1]] if data is not None else b"")
        self._offsets.add(ends[1:] - ends[0] + self._n_bytes)
        self._n_bytes += int(ends[-1] - ends[0])

    def mapped(self) -> pa.LargeStringArray:
        """All that was added, as text."""
        self._data.close()
        offsets = self._offsets.mapped()
        data = pa.py_buffer(b"")
        if self._n_bytes:
            data = pa.py_buffer(np.memmap(self._path, np.uint8, "r"))
        buffers = [None, pa.py_buffer(offsets), data]
        return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
