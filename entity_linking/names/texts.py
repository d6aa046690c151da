"""`Texts`: strings of an Arrow column, read by place without Arrow's overhead a value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Texts:
    """A view of the buffers of a column without nulls; nothing is copied.

    >>> Texts(pa.array(["a", "bc", "é"], pa.large_string())).take([2, 0])
    ['é', 'a']
    """

    def __init__(self, column: pa.LargeStringArray) -> None:
        _, offsets, data = column.buffers()
        first, n = column.offset, len(column)
        self._offsets = np.zeros(1, np.int64)
        if n:
            self._offsets = np.frombuffer(offsets, np.int64)[first : first + n + 1]
        self._data = memoryview(b"" if data is None else data)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def take(self, places: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """The strings at these places, none of them negative."""
        at, data = np.asarray(places, np.int64), self._data
        ends = self._offsets[at + 1].tolist()
        return [
            str(data[start:end], "utf-8")
            for start, end in zip(self._offsets[at].tolist(), ends, strict=True)
        ]
