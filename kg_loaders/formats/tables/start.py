"""`TableStart`: the first rows of a table, from which its columns are known before it is read."""

from __future__ import annotations

import csv
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.encodings import as_utf8
from kg_loaders.reading.lines import BOM, MAX_LINE_BYTES, Span
from kg_loaders.reading.unpacking import StreamDamageError, unpacked

LOOK_BYTES = 1 << 16
LOOK_ROWS = 200
DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r'"?sep=(.)"?', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableStart:
    """The first rows of a table that hold data, perhaps none: `(line number, fields)`.

    `delimiter` is that of CSV, `separator_line` the number of Excel's line `sep=;` (0: none).
    `has_blanks` says that a blank follows every delimiter and is no part of a field; lines up
    to `last_comment` are comments of CSV.
    """

    rows: Sequence[tuple[int, list[str]]] = ()
    delimiter: str = "\t"
    separator_line: int = 0
    has_blanks: bool = False
    last_comment: int = 0

    @property
    def fields(self) -> list[list[str]]:
        return [fields for _, fields in self.rows]

    def is_aside(self, line_no: int, fields: Sequence[str]) -> bool:
        """Return whether a row of CSV is a comment, or Excel's line."""
        is_before = line_no <= max(self.last_comment, self.separator_line)
        return is_before or is_comment_row(fields)

    def header(self, has_header: bool) -> HeaderRow:
        """The first row as the header, or none."""
        if not has_header:
            return NO_HEADER
        number, fields = self.rows[0]
        return HeaderRow(number, tuple(fields))


REPEATED = "header that is repeated"


@dataclass(frozen=True, slots=True)
class HeaderRow:
    """The row that names the columns; files that were joined hold it again further down.

    `number` is its line (0: there is none, -1: it lies before the rows at hand).
    """

    number: int = 0
    fields: tuple[str, ...] = ()

    def passes_over(self, line_no: int, fields: Sequence[str], report: DamageReport) -> bool:
        """Return whether a row is the header or repeats it; it is counted then."""
        if not self.number:
            return False
        if line_no == self.number:
            report.n_comment += 1
            return True
        is_same = tuple(fields[1:]) == self.fields[1:] and _plain(fields) == _plain(self.fields)
        if is_same:
            report.skip(REPEATED)
        return is_same

    def in_span(self, span: Span) -> HeaderRow:
        """The same for rows of a span, whose lines are counted from its start."""
        return self if span.start == 0 or not self.number else replace(self, number=-1)

    @property
    def line(self) -> bytes:
        """The row as a line of a TSV, without a byte-order mark; empty if there is none."""
        return "\t".join(self.fields).removeprefix("\ufeff").encode() if self.number else b""


NO_HEADER = HeaderRow()


def _plain(fields: Sequence[str]) -> str:
    return fields[0].removeprefix("\ufeff") if fields else ""


def is_separator_line(line_no: int, fields: Sequence[str]) -> bool:
    """Return whether a row of a TSV is Excel's first line, `sep=` and a TAB."""
    return line_no == 1 and [*fields] in (["sep=", ""], ['"sep=', '"'])


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
        if line.strip() and not is_comment(line) and not is_separator_line(number, fields):
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
    kept_lines, n_comments = _without_comments(lines, delimiter)
    lines = list(kept_lines)
    delimiter = delimiter or _delimiter(lines)
    has_blanks = _has_blanks(lines, delimiter)
    csv.field_size_limit(max(csv.field_size_limit(), max_line_bytes))
    reader = csv.reader(
        (line + "\n" for _, line in lines), delimiter=delimiter, skipinitialspace=has_blanks
    )
    rows: list[tuple[int, list[str]]] = []
    first = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields) and not is_comment_row(fields):
                rows.append((lines[first - 1][0], fields))
            first = reader.line_num + 1
            if len(rows) == LOOK_ROWS:
                break
    except csv.Error:
        pass  # its reader will name the row
    return TableStart(rows, delimiter, separator_line, has_blanks, n_comments)


def is_comment_row(fields: Sequence[str]) -> bool:
    """Return whether a row of CSV starts with "#" and holds nothing in its other fields."""
    return fields[:1] != [] and fields[0].startswith("#") and not any(fields[1:])


def note_blanks(file: str, start: TableStart, report: DamageReport) -> None:
    """Say that the blanks behind delimiters were left out."""
    if start.has_blanks:
        report.notes.append(f"{file}: the blank behind every {start.delimiter!r} is left out")


def _without_comments(
    lines: Sequence[tuple[int, str]], delimiter: str | None
) -> tuple[Sequence[tuple[int, str]], int]:
    """The lines behind those at the start that are comments, and the number of the last of these.

    Such a line starts with "#", and has not as many fields as the first that does not.
    """
    index = next(
        (index for index, (_, line) in enumerate(lines) if line.strip() and line[0] != "#"), None
    )
    if not index:
        return lines, 0
    delimiter = delimiter or _delimiter(lines[index:])
    n_fields = _n_fields(lines[index][1], delimiter)
    if _n_fields(lines[index - 1][1], delimiter) == n_fields:
        index -= 1  # a header that starts with "#"
    last = next((number for number, line in reversed(lines[:index]) if line.strip()), 0)
    return lines[index:], last


def _has_blanks(lines: Sequence[tuple[int, str]], delimiter: str) -> bool:
    """Whether a blank follows every delimiter of the first rows, as people write lists."""
    rows = [line for _, line in lines[:LOOK_ROWS] if line.strip()]
    if delimiter not in ",;" or len(rows) < 2:
        return False
    return all(line.count(delimiter) == line.count(f"{delimiter} ") >= 2 for line in rows)


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
    if not is_whole and b"\n" not in start:  # a header of thousands of columns
        start, is_whole = start_bytes(path, report, encoding, min(max_line_bytes, MAX_LINE_BYTES))
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
