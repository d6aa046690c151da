"""Regular lines of tab-separated texts about nodes, a block at a time.

A line is an identifier and texts; it is regular where the identifier and at least one text are not
empty and there are no more fields than are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kg_loaders.disk.arrow import numbers_array
from kg_loaders.reading.blocks import TextBlock, strings_between
from kg_loaders.reading.lines import LineBlock, fault_of

_TAB, _LF, _CR = b"\t\n\r"


def split_texts(
    block: LineBlock,
    kinds: Sequence[int],
    further: int | None,
    language: str,
    is_relation: bool,
    max_line_bytes: int,
    *,
    asides: Sequence[int] = (),
) -> tuple[TextBlock | None, NDArray[np.bool_]]:
    """Return the texts of regular lines, None if there are none, and which lines are odd `[line]`.

    `kinds` are those of the fields after the identifier, `further` of all that follow; None: there
    are none. An empty field is not text.
    """
    data = block.with_line_ends()
    if fault_of(data, nul_is_text=True):
        return None, np.ones(block.n_lines, np.bool_)
    array = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero((array == _TAB) | (array == _LF))
    last = np.flatnonzero(array[marks] == _LF)
    first = np.concatenate([[0], last[:-1] + 1])
    starts = np.concatenate([[0], marks[:-1] + 1])
    n_texts = last - first
    begins, ends = starts[first], marks[last]
    regular = (n_texts >= 1) & (begins < marks[first]) & (ends - begins <= max_line_bytes)
    regular &= array[np.maximum(ends - 1, 0)] != _CR
    if further is None:
        regular &= n_texts <= len(kinds)
    regular[[*asides]] = False
    lines = np.repeat(np.arange(len(last)), n_texts + 1)
    places = np.arange(len(marks)) - first[lines]
    is_text = (places > 0) & (starts < marks) & regular[lines]
    regular &= np.bincount(lines[is_text], minlength=len(last)) > 0
    if not regular.any():
        return None, ~regular
    known = np.array([*kinds, 0 if further is None else further], np.uint8)
    chosen, of_line = np.flatnonzero(is_text), np.cumsum(regular) - 1
    pieces = strings_between(data, np.stack([starts, marks], axis=1).ravel())
    texts = TextBlock(  # every second piece is a field, those between are marks
        pieces.take(numbers_array(2 * first[regular])),
        of_line[lines[chosen]].astype(np.int32),
        known[np.minimum(places[chosen] - 1, len(kinds))],
        pieces.take(numbers_array(2 * chosen)),
        np.zeros(len(chosen), np.int32),
        (language,),
        is_relation,
    )
    return texts, ~regular
