"""CSV that a spreadsheet opens as what it says: no cell is run as a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}( ?%)?( \[{_NUMBER}, {_NUMBER}\])?")
"""A number, perhaps with its interval."""


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV with its header; what would start a formula gets an apostrophe before it.

    >>> print(csv_text(["name", "change"], [["=1+1", -0.3]]), end="")
    name,change
    '=1+1,-0.3
    """
    return "".join(csv_line(row) for row in (columns, *rows))


def csv_line(row: Iterable[object]) -> str:
    """Return a row and a line feed; the writer quotes both line ends only where it writes both."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_guarded(cell) for cell in row])
    return out.getvalue().removesuffix("\r\n") + "\n"


def _guarded(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(STARTS_A_FORMULA):
        return cell
    return cell if _NUMBERS.fullmatch(cell) else f"'{cell}"
