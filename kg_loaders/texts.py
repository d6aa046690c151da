"""`Texts`: labels, aliases, descriptions and types of every node, in flat columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numbers_array, numpy_of, strings_array
from kg_loaders.records import DEPRECATED_TYPES, TextKind
from kg_loaders.vocabulary import node_id, update_with_strings

MOST_REMEMBERED = 65_536
"""Names whose nodes are remembered."""
_NAMES = (int(TextKind.LABEL), int(TextKind.ALIAS))


class Texts:
    """Texts of every node, CSR by node id; order: kind, language preference, -count, value.

    Shapes: `offsets` int64 `[node+1]`; `kinds` uint8, `languages` int16 (index into
    `language_names`), `counts` int32, `values` `[text]`.
    """

    def __init__(
        self,
        *,
        offsets: NDArray[np.int64],
        kinds: NDArray[np.uint8],
        languages: NDArray[np.int16],
        counts: NDArray[np.int32],
        values: pa.LargeStringArray,
        language_names: Sequence[str],
    ) -> None:
        self.offsets, self.kinds, self.languages = offsets, kinds, languages
        self.counts, self.values, self.language_names = counts, values, tuple(language_names)
        self._named: dict[str, list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_named": {}}

    def __len__(self) -> int:
        return len(self.kinds)

    def of(self, node: int, kind: TextKind, language: str | None = None) -> list[tuple[str, int]]:
        """`(value, count)` of one node, best first; of one language when it is named.

        `NodeIdError` for what is not an id of a node.
        """
        node = node_id(node, len(self.offsets) - 1)
        start, stop = int(self.offsets[node]), int(self.offsets[node + 1])
        kinds = self.kinds[start:stop].tolist()  # an array's number beside an enum's is slow
        return [
            (str(self.values[row].as_py()), int(self.counts[row]))
            for row, row_kind in enumerate(kinds, start)
            if row_kind == kind
            and (language is None or self.language_names[self.languages[row]] == language)
        ]

    def named(self, name: str) -> list[int]:
        """The nodes with `name` for a label or an alias, in their order, once for each text."""
        return self.named_each([name])[name]

    def named_each(self, names: Collection[str]) -> dict[str, list[int]]:
        """`named` of several names, which one search through all texts finds.

        The last names are remembered.
        """
        known = self._named  # of other threads too, which may put another in its place
        missing = [name for name in names if name not in known]
        if missing:
            if len(known) + len(missing) > MOST_REMEMBERED:
                known = self._named = {}
                missing = list(names)
            nodes_of: dict[str, list[int]] = {name: [] for name in missing}
            is_it = numpy_of(pc.is_in(self.values, strings_array(missing, self.values.type)))
            rows = np.flatnonzero(is_it & np.isin(np.asarray(self.kinds), _NAMES))
            nodes = np.searchsorted(self.offsets, rows, side="right") - 1
            values = self.values.take(numbers_array(rows)).to_pylist()
            for name, node in zip(values, nodes.tolist(), strict=True):
                nodes_of[name].append(node)
            known |= nodes_of
        return {name: list(known[name]) for name in names}

    def deprecated(self) -> NDArray[np.int32]:
        """Return the nodes that their source calls deprecated, ascending."""
        types = np.flatnonzero(np.asarray(self.kinds) == TextKind.TYPE)
        values = self.values.take(numbers_array(types))
        marks = strings_array(DEPRECATED_TYPES, self.values.type)
        is_mark = numpy_of(pc.is_in(values, marks))
        nodes = np.searchsorted(self.offsets, types[is_mark], side="right") - 1
        return np.unique(nodes.astype(np.int32))

    def nodes(self) -> NDArray[np.int32]:
        """The node of every text, int32 `[text]`."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    def update(self, digest: Any) -> None:
        """Feed a hash with everything a text says."""
        for column, dtype in (
            (self.offsets, "<i8"),
            (self.kinds, "u1"),
            (self.languages, "<i2"),
            (self.counts, "<i4"),
        ):
            digest.update(np.ascontiguousarray(column, dtype))
        update_with_strings(digest, self.values)
