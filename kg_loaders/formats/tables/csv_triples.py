"""Triples in CSV (RFC 4180): quoted fields, any of four delimiters, with or without a header.

Without a header a row is head, relation, tail. A first row that names the columns is a header
(`kg_loaders.formats.tables.layout`): columns of texts about the ends are read, others are passed
over and noted, a header that comes again is counted. A row that starts with "#" and holds nothing
else is a comment. A table of nodes gives texts, one of Neo4j goes to its own module (`neo4j`).
Excel's first line `sep=;` names the delimiter. A field may hold line ends; a row is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.tables import neo4j
from kg_loaders.formats.tables.layout import (
    Header,
    Neo4jLayout,
    layout_of,
    require_header,
    require_order,
)
from kg_loaders.formats.tables.rows import RowReader, order_remedy
from kg_loaders.formats.tables.start import (
    DELIMITERS,
    TableStart,
    csv_start,
    note_blanks,
)
from kg_loaders.reading.csv_rows import CsvRows
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.records import Record


def read(
    path: str | Path,
    report: DamageReport,
    *,
    delimiter: str | None = None,
    order: str | None = None,
    header: Header | bool = "auto",
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """The triples and texts of every row; the first line shows the delimiter unless it is given.

    `order` and `header` are those of `layout_of`, `encoding` is that of a file that is not UTF-8.

    Raises `SourceError` for another delimiter than `DELIMITERS`, for a first line of fewer than
    three fields, and for half a header.
    """
    order, header = require_order(order), require_header(header)
    path, file = Path(path), str(path)
    start = csv_start(path, report, encoding, max_line_bytes, delimiter)
    report.units = "rows"
    layout = layout_of(start.fields, file, order=order, header=header, notes=report.notes)
    note_blanks(file, start, report)
    if isinstance(layout, Neo4jLayout):
        yield from neo4j.read(
            path, report, delimiter=start.delimiter, has_blanks=start.has_blanks, encoding=encoding,
            max_line_bytes=max_line_bytes,
        )  # fmt: skip
        return
    _require_three_fields(file, start, layout.has_header)
    rows = CsvRows(
        file,
        read_lines(
            path, report, max_line_bytes=max_line_bytes, nul_is_text=True, encoding=encoding
        ),
        report,
        delimiter=start.delimiter,
        max_row_bytes=max_line_bytes,
        has_blanks=start.has_blanks,
    )
    reader = RowReader(layout, report)
    header_row = start.header(layout.has_header)
    for line_no, offset, raw, fields in rows:
        if header_row.passes_over(line_no, fields, report):
            continue
        if not any(field.strip() for field in fields):
            report.n_blank += 1
        elif start.is_aside(line_no, fields):
            report.n_comment += 1
        else:
            records, fault = reader.records(fields)
            yield from records
            if fault:
                report.reject(
                    file,
                    line_no,
                    offset,
                    fault,
                    raw,
                    remedy=order_remedy(len(fields), layout.n_fields),
                )


def _require_three_fields(file: str, start: TableStart, has_header: bool) -> None:
    if start.rows and not has_header and len(start.rows[0][1]) < 3:
        line_no, fields = start.rows[0]
        raise SourceError(
            f"{file}, line {line_no}: none of {list(DELIMITERS)} parts "
            f"{start.delimiter.join(fields)[:60]!r} into three fields{_advice(len(fields))}"
        )


def _advice(n_fields: int) -> str:
    if n_fields != 2:
        return ""
    return (
        "; with two it may be names (give it with --labels, --aliases or --types), or edges "
        "without a relation (add a column with its name)"
    )
