"""`CsvRows`: the rows of a CSV file (RFC 4180), whose quoted fields may hold line ends.

A field may be as long as the longest line that is allowed. A quoted field that does not end within
so many bytes costs its first line: the lines behind it are read as rows again.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kg_loaders.damage import DamageReport

Line = tuple[int, int, bytes]
"""Its number, the offset of its first byte, and its bytes without the end."""
MOST_REREAD = 4
"""Times the longest row, in bytes, that are read again behind quotes that do not end."""


class Row(NamedTuple):
    """A row: number and offset of its first line, its bytes and its fields."""

    line_no: int
    offset: int
    raw: bytes
    fields: list[str]


class _NoRowError(Exception):
    """The lines of a row do not make one; the message says why."""


class CsvRows:
    """The rows of lines; one that is malformed is rejected with all of its lines.

    `report.n_lines`, which counts lines, is set right to count rows. `has_blanks` leaves out the
    blanks behind delimiters.
    """

    def __init__(
        self,
        file: str,
        lines: Iterator[Line],
        report: DamageReport,
        *,
        delimiter: str,
        max_row_bytes: int,
        has_blanks: bool = False,
    ) -> None:
        csv.field_size_limit(max(csv.field_size_limit(), max_row_bytes))  # the module's own is 128K
        self._file, self._lines, self._report = file, lines, report
        self._max_bytes = max_row_bytes
        self._row: list[Line] = []
        self._n_bytes, self._n_reread = 0, 0
        self._waiting: deque[Line] = deque()
        self._reader = csv.reader(
            _Feed(self), strict=True, delimiter=delimiter, skipinitialspace=has_blanks
        )

    def __iter__(self) -> Iterator[Row]:
        while True:
            self._row, self._n_bytes = [], 0
            try:
                fields = next(self._reader)
            except StopIteration:
                return
            except _NoRowError as error:
                self._reject_first_line(str(error))
                continue
            except csv.Error as error:
                if str(error) == "unexpected end of data":
                    self._reject_first_line("no CSV: a quoted field does not end")
                else:
                    self._reject(f"no CSV: {error}")
                continue
            self._report.n_lines -= len(self._row) - 1
            yield Row(self._row[0][0], self._row[0][1], self._raw(), fields)

    def _raw(self) -> bytes:
        return self._row[0][2] if len(self._row) == 1 else b"\n".join(row[2] for row in self._row)

    def next_line(self) -> Line:
        """The next line of the row; raises StopIteration, or `_NoRowError` where it is too long."""
        line = self._waiting.popleft() if self._waiting else next(self._lines)
        if self._row:
            fault = ""
            if line[0] != self._row[-1][0] + 1:
                fault = "a line of the row was rejected"
            elif self._n_bytes + len(line[2]) > self._max_bytes:
                fault = f"no CSV: a quoted field does not end within {self._max_bytes} bytes"
            if fault:
                self._waiting.appendleft(line)
                raise _NoRowError(fault)
        self._row.append(line)
        self._n_bytes += len(line[2]) + 1
        return line

    def _reject_first_line(self, reason: str) -> None:
        """Reject the first line of the row at hand; the others are read again, as rows."""
        rest, self._row = self._row[1:], self._row[:1]
        self._n_reread += self._n_bytes
        if rest and self._n_reread > MOST_REREAD * self._max_bytes:
            self._row += rest
            rest = []
        self._waiting.extendleft(reversed(rest))
        self._reject(reason)

    def _reject(self, reason: str) -> None:
        self._report.n_lines -= len(self._row) - 1
        line_no, offset, _ = self._row[0]
        self._report.reject(self._file, line_no, offset, reason, self._raw())


class _Feed:
    """Lines as the csv module wants them."""

    def __init__(self, rows: CsvRows) -> None:
        self._rows = rows

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        return self._rows.next_line()[2].decode() + "\n"
