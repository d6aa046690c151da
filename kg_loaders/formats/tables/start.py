"""`TableStart`: the first rows of a table, from which its columns are known before it is read."""

from __future__ import annotations

import csv
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.encodings import as_utf8
from kg_loaders.reading.lines import BOM
from kg_loaders.reading.unpacking import StreamDamageError, unpacked

LOOK_BYTES = 1 << 16
LOOK_ROWS = 200
DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableStart:
    """The first rows of a table that hold data, perhaps none: `(line number, fields)`.

    `delimiter` is that of CSV, `separator_line` the number of Excel's line `sep=;` (0: none).
    """

    rows: Sequence[tuple[int, list[str]]] = ()
    delimiter: str = "\t"
    separator_line: int = 0

    @property
    def fields(self) -> list[list[str]]:
        return [fields for _, fields in self.rows]


def start_bytes(
    path: Path, report: DamageReport, encoding: str | None = None, n_bytes: int = LOOK_BYTES
) -> tuple[bytes, bool]:
    """Return the first bytes of a file, unpacked and as UTF-8, and whether these are all.

    None of what cannot be read twice (a pipe) or at all: its reader will say so.
    """
    start = b""
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            return b"", False
        for block in as_utf8(unpacked(path, report.budget), encoding):
            start += block
            if len(start) > n_bytes:
                return start[:n_bytes].removeprefix(BOM), False
    except (StreamDamageError, OSError, ValueError):  # OSError: SourceError, too
        return start.removeprefix(BOM), False
    return start.removeprefix(BOM), True


def tab_separated_start(
    path: Path, report: DamageReport, encoding: str | None, max_line_bytes: int
) -> TableStart:
    """Return the first rows of a table of TABs."""
    rows = []
    for number, line in _lines(path, report, encoding, max_line_bytes):
        fields = line.split("\t")
        if line.strip() and not is_comment(line):
            rows.append((number, fields))
    return TableStart(rows[:LOOK_ROWS])


def is_comment(line: str) -> bool:
    """Return whether a line starts with "#" and holds nothing behind a TAB.

    >>> is_comment("#curie_map:\\t\\t"), is_comment("#id\\tname")
    (True, False)
    """
    return line.startswith("#") and not line.partition("\t")[2].strip("\t")


def csv_start(
    path: Path,
    report: DamageReport,
    encoding: str | None,
    max_line_bytes: int,
    delimiter: str | None = None,
) -> TableStart:
    """Return the first rows of a CSV file; the delimiter is inferred unless it is given.

    Raises `SourceError` for another one than `DELIMITERS`.
    """
    lines = _lines(path, report, encoding, max_line_bytes)
    separator_line = 0
    if lines and (match := _SEPARATOR.fullmatch(lines[0][1].strip("\r"))):
        separator_line, delimiter = lines[0][0], delimiter or match[1]
        lines = lines[1:]
    if delimiter is not None and (len(delimiter) != 1 or delimiter not in DELIMITERS):
        raise SourceError(f"delimiter {delimiter!r} is none of {list(DELIMITERS)}")
    delimiter = delimiter or _delimiter(lines)
    csv.field_size_limit(max(csv.field_size_limit(), max_line_bytes))
    reader = csv.reader((line + "\n" for _, line in lines), delimiter=delimiter)
    rows: list[tuple[int, list[str]]] = []
    first = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                rows.append((lines[first - 1][0], fields))
            first = reader.line_num + 1
            if len(rows) == LOOK_ROWS:
                break
    except csv.Error:
        pass  # its reader will name the row
    return TableStart(rows, delimiter, separator_line)


def _delimiter(lines: Sequence[tuple[int, str]]) -> str:
    """The delimiter that parts the first line into most fields."""
    line = next((line for _, line in lines if line.strip()), "")
    counts = {delimiter: _n_fields(line, delimiter) for delimiter in DELIMITERS}
    return max(DELIMITERS, key=lambda delimiter: counts[delimiter])


def _n_fields(line: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=delimiter)))
    except (csv.Error, StopIteration):
        return 0


def _lines(
    path: Path, report: DamageReport, encoding: str | None, max_line_bytes: int
) -> list[tuple[int, str]]:
    """The whole lines at the start of a file that their reader would take."""
    start, is_whole = start_bytes(path, report, encoding)
    parts = start.split(b"\n")
    if not is_whole or not parts[-1]:
        parts.pop()
    lines = []
    for number, part in enumerate(parts, 1):
        line = part.removesuffix(b"\r") if number < len(parts) or start.endswith(b"\n") else part
        try:
            if len(line) <= max_line_bytes:
                lines.append((number, line.decode()))
        except UnicodeDecodeError:
            continue
    return lines
