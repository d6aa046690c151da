"""Triples in CSV (RFC 4180): quoted fields, any of four delimiters, with or without a header.

Without a header a row is head, relation, tail. A first row that names all three columns
(`columns_by_name.NAMES`) is a header, and other columns are passed over. A field may hold line
ends; a row is counted once.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.tables.columns_by_name import places_of
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.records import Triple

DELIMITERS = ",;\t|"


def read(
    path: str | Path,
    report: DamageReport,
    *,
    delimiter: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Triple]:
    """One triple a row; `delimiter` is told by the first line unless it is given.

    Raises `SourceError` for another delimiter than `DELIMITERS`, or for a first line from which
    none can be told.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter not in DELIMITERS):
        raise SourceError(f"delimiter {delimiter!r} is none of {list(DELIMITERS)}")
    report.units = "rows"
    lines = _Lines(read_lines(path, report, max_line_bytes=max_line_bytes, nul_is_text=True))
    places, n_fields = (0, 1, 2), 3
    reader = csv.reader(lines, strict=True, delimiter=delimiter or lines.delimiter(path))
    for number, row in enumerate(_rows(reader, lines, report, str(path))):
        if number == 0 and (named := places_of(row)) is not None:
            places, n_fields = named, len(row)
            report.n_comment += 1
        elif not row or not any(field.strip() for field in row):
            report.n_blank += 1
        elif len(row) == n_fields and all(row[place] for place in places):
            yield Triple(*(row[place] for place in places))
        else:
            wrong = f"{len(row)} fields instead of {n_fields}"
            lines.reject(report, str(path), "empty field" if len(row) == n_fields else wrong)


def _rows(
    reader: Iterator[list[str]], lines: _Lines, report: DamageReport, file: str
) -> Iterator[list[str]]:
    """Every row; one that is none is rejected with all of its lines."""
    while True:
        lines.row = []
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            report.n_lines -= len(lines.row) - 1
            lines.reject(report, file, f"no CSV: {error}")
            continue
        report.n_lines -= len(lines.row) - 1
        yield row


class _Lines:
    """Lines as the csv module wants them; those of the row at hand are in `row`."""

    def __init__(self, lines: Iterator[tuple[int, int, bytes]]) -> None:
        self._lines, self._first = lines, next(lines, None)
        self.row: list[tuple[int, int, bytes]] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._first if self._first is not None else next(self._lines)
        self._first = None
        self.row.append(line)
        return line[2].decode() + "\n"

    def delimiter(self, path: str | Path) -> str:
        """The one that parts the first line into most fields, at least three."""
        if self._first is None:
            return DELIMITERS[0]
        text = self._first[2].decode()
        counts = {d: _n_fields(text, d) for d in DELIMITERS}
        best = max(DELIMITERS, key=lambda delimiter: counts[delimiter])
        if counts[best] < 3:
            raise SourceError(
                f"{path}, line {self._first[0]}: none of {list(DELIMITERS)} parts {text[:60]!r} "
                "into three fields"
            )
        return best

    def reject(self, report: DamageReport, file: str, reason: str) -> None:
        """Reject the row at hand."""
        line_no, offset, _ = self.row[0]
        report.reject(file, line_no, offset, reason, b"\n".join(line for _, _, line in self.row))


def _n_fields(line: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=delimiter)))
    except csv.Error:
        return 0
