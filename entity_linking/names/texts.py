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
        starts = np.zeros(1, np.int64)
        if n:
            starts = np.frombuffer(offsets, np.int64)[first : first + n + 1]
        self._offsets = starts.data  # its numbers are Python's, which few places need
        self._data = memoryview(b"" if data is None else data)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def take(self, places: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """The strings at these places, none of them negative."""
        at = places.tolist() if isinstance(places, np.ndarray) else places
        offsets, data = self._offsets, self._data
        return [str(data[offsets[row] : offsets[row + 1]], "utf-8") for row in at]
