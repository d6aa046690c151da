"""Triples and texts in tab-separated lines, byte for byte: no quoting, no trimming, no NA.

A line is blank when nothing but white space and no TAB is in it, and a comment when it starts with
"#" and holds nothing behind a TAB; other lines that start with "#" are data. All else must have the
right number of fields, none of them empty, or it is rejected. A first line that names the columns
is a header (`kg_loaders.formats.tables.layout`) and counts as a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_lines
from kg_loaders.errors import KgError, SourceError
from kg_loaders.formats.tables import neo4j
from kg_loaders.formats.tables.layout import (
    Header,
    Layout,
    Neo4jLayout,
    NodeLayout,
    TripleLayout,
    WideLayout,
    layout_of,
    require_header,
    require_order,
)
from kg_loaders.formats.tables.rows import RowReader, order_remedy
from kg_loaders.formats.tables.start import (
    HeaderRow,
    TableStart,
    csv_start,
    is_separator_line,
    note_blanks,
    tab_separated_start,
)
from kg_loaders.formats.tables.text_columns import KINDS, TextColumns, text_columns
from kg_loaders.formats.text_blocks import split_texts
from kg_loaders.formats.tsv_blocks import split_triples
from kg_loaders.reading.blocks import TextBlock, TripleBlock
from kg_loaders.reading.csv_rows import CsvRows, Row
from kg_loaders.reading.lines import (
    BOM,
    MAX_LINE_BYTES,
    Span,
    checked_lines,
    read_blocks,
    read_lines,
)
from kg_loaders.reading.unpacking import data_name
from kg_loaders.reading.workers import Workers
from kg_loaders.records import Record, Text, Triple
from kg_loaders.store import KnowledgeGraph

ORDERS = ("hrt", "htr", "rht", "rth", "thr", "trh")
"""Of three columns, by letters."""
COLUMNS = KINDS


def read(
    path: str | Path,
    report: DamageReport,
    *,
    order: str | None = None,
    header: Header | bool = "auto",
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Triples, one per line, and what other columns say of their ends.

    `order` names the columns (OpenKE "htr", ConceptNet "rht", or names of a header), `header` says
    whether the first line does; `encoding` is that of a file that is not UTF-8.
    """
    table = _table(Path(path), report, order, header, encoding, max_line_bytes)
    yield from _read_table(Path(path), report, table, max_line_bytes)


def read_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    order: str | None = None,
    header: Header | bool = "auto",
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    workers: Workers | None = None,
) -> Iterator[Record | TripleBlock]:
    """What `read` reads, many lines at once; the odd lines of a block follow its regular ones.

    Line by line, without `workers`, where a line is more than three names, or of another encoding.
    """
    path = Path(path)
    table = _table(path, report, order, header, encoding, max_line_bytes)
    layout = table.layout
    if encoding is not None or not (isinstance(layout, TripleLayout) and layout.is_plain):
        if workers is not None:
            workers.leave_out(path, report)
        yield from _read_table(path, report, table, max_line_bytes)
        return
    reader = partial(_read_span, layout=layout, header=table.header, max_line_bytes=max_line_bytes)
    yield from (workers or Workers()).read(reader, path, report)


class _Table(NamedTuple):
    """What the columns of a file are, and the row that names them."""

    layout: Layout
    header: HeaderRow
    encoding: str | None


def _table(
    path: Path,
    report: DamageReport,
    order: str | None,
    header: Header | bool,
    encoding: str | None,
    max_line_bytes: int,
) -> _Table:
    order, header = require_order(order), require_header(header)
    start = tab_separated_start(path, report, encoding, max_line_bytes)
    layout = layout_of(start.fields, str(path), order=order, header=header, notes=report.notes)
    return _Table(layout, start.header(layout.has_header), encoding)


def _read_table(
    path: Path, report: DamageReport, table: _Table, max_line_bytes: int
) -> Iterator[Record]:
    if isinstance(table.layout, Neo4jLayout):
        yield from neo4j.read(
            path, report, delimiter="\t", encoding=table.encoding, max_line_bytes=max_line_bytes
        )
        return
    lines = read_lines(
        path, report, max_line_bytes=max_line_bytes, nul_is_text=True, encoding=table.encoding
    )
    yield from _records(str(path), lines, report, table.layout, table.header)


def _read_span(
    path: Path,
    report: DamageReport,
    span: Span,
    *,
    layout: TripleLayout,
    header: HeaderRow,
    max_line_bytes: int,
) -> Iterator[Record | TripleBlock]:
    file = str(path)
    header = header.in_span(span)
    for block in read_blocks(path, report, max_line_bytes=max_line_bytes, span=span):
        triples, odd = split_triples(
            block, layout.order, max_line_bytes, asides=block.indices_of(header.line)
        )
        if triples is not None:
            report.n_lines += len(triples.ends)
            yield triples
        if odd.any():
            lines = checked_lines(
                file, block, report, chosen=odd, max_line_bytes=max_line_bytes, nul_is_text=True
            )
            yield from _records(file, lines, report, layout, header)


def _records(
    file: str,
    lines: Iterable[tuple[int, int, bytes]],
    report: DamageReport,
    layout: TripleLayout | NodeLayout | WideLayout,
    header: HeaderRow,
) -> Iterator[Record]:
    is_plain = isinstance(layout, TripleLayout) and layout.is_plain
    head, relation, tail = (layout.head, layout.relation, layout.tail) if is_plain else (0, 1, 2)  # type: ignore[union-attr]
    rows = RowReader(layout, report)
    for line_no, offset, line in lines:
        fields = line.decode().split("\t")
        if header.passes_over(line_no, fields, report):
            continue
        if is_separator_line(line_no, fields):
            report.n_comment += 1
        elif is_plain and len(fields) == 3 and fields[0] and fields[1] and fields[2]:
            yield Triple(fields[head], fields[relation], fields[tail])
        elif not _is_aside(line, report):
            records, fault = rows.records(fields)
            yield from records
            if fault:
                reason = fault + _other_separator(line, 3)
                remedy = order_remedy(len(fields), layout.n_fields)
                report.reject(file, line_no, offset, reason, line, remedy=remedy)


def read_texts(
    path: str | Path,
    report: DamageReport,
    *,
    columns: Sequence[str] = ("label", "description"),
    language: str = "en",
    is_relation: bool = False,
    header: Header | bool = "auto",
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Texts about nodes: an identifier, then one field per column; an identifier may repeat.

    Columns: "label", "alias", "description", "type"; "count" is the frequency of the alias before
    it, "-" is passed over. Fields at the end may be missing and, save the identifier, be empty. A
    header may name them otherwise (`kg_loaders.formats.tables.text_columns`) and counts as a
    comment. A file called .csv holds them as CSV.
    """
    _require_columns(columns)
    start, layout = _text_table(Path(path), report, columns, header, encoding, max_line_bytes)
    lines = read_lines(
        path, report, max_line_bytes=max_line_bytes, nul_is_text=True, encoding=encoding
    )
    rows: Iterable[Row] = _tab_separated(lines)
    if _is_csv(Path(path)):
        rows = _csv_rows(str(path), lines, report, start, max_line_bytes)
    yield from _texts_of_rows(
        str(path), rows, report, columns=layout, language=language, is_relation=is_relation,
        header=start.header(layout.has_header),
    )  # fmt: skip


def _is_csv(path: Path) -> bool:
    return data_name(path).lower().endswith(".csv")


def _text_table(
    path: Path,
    report: DamageReport,
    columns: Sequence[str],
    header: Header | bool,
    encoding: str | None,
    max_line_bytes: int,
) -> tuple[TableStart, TextColumns]:
    """The first rows of a file of texts, and what its columns are."""
    look = csv_start if _is_csv(path) else tab_separated_start
    start = look(path, report, encoding, max_line_bytes)
    return start, text_columns(
        start.fields, columns, str(path), header=require_header(header), notes=report.notes
    )


def _tab_separated(lines: Iterable[tuple[int, int, bytes]]) -> Iterator[Row]:
    for line_no, offset, line in lines:
        yield Row(line_no, offset, line, line.decode().split("\t"))


def _csv_rows(
    file: str,
    lines: Iterator[tuple[int, int, bytes]],
    report: DamageReport,
    start: TableStart,
    max_line_bytes: int,
) -> Iterator[Row]:
    """The rows of CSV that hold anything."""
    report.units = "rows"
    note_blanks(file, start, report)
    rows = CsvRows(
        file, lines, report, delimiter=start.delimiter, max_row_bytes=max_line_bytes,
        has_blanks=start.has_blanks,
    )  # fmt: skip
    for row in rows:
        if not any(field.strip() for field in row.fields):
            report.n_blank += 1
        elif start.is_aside(row.line_no, row.fields):
            report.n_comment += 1
        else:
            yield row


def read_texts_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    columns: Sequence[str] = ("label", "description"),
    language: str = "en",
    is_relation: bool = False,
    further: str | None = None,
    header: Header | bool = "auto",
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    workers: Workers | None = None,
) -> Iterator[Record | TextBlock]:
    """What `read_texts` reads, many lines at once; the odd lines of a block follow its others.

    Line by line where a line is not a row of texts alone: with counts, columns that are left out,
    CSV or another encoding; then without `workers`. `further` is the column of all fields that
    follow.
    """
    _require_columns((*columns, *([further] if further else ())))
    how: Any = {"language": language, "is_relation": is_relation}
    path = Path(path)
    start, layout = _text_table(path, report, columns, header, encoding, max_line_bytes)
    is_regular = COLUMNS.keys() >= {*layout.columns} and not layout.places
    if encoding is not None or not is_regular or _is_csv(path):
        if workers is not None:
            workers.leave_out(path, report)
        quiet = len(report.notes)
        yield from read_texts(
            path, report, columns=columns, header=header, encoding=encoding,
            max_line_bytes=max_line_bytes, **how,
        )  # fmt: skip
        del report.notes[quiet:]  # of the same columns
        return
    reader = partial(
        _read_texts_span, columns=layout.columns, further=further, max_line_bytes=max_line_bytes,
        header=start.header(layout.has_header), **how,
    )  # fmt: skip
    yield from (workers or Workers()).read(reader, path, report)


def _read_texts_span(
    path: Path,
    report: DamageReport,
    span: Span,
    *,
    columns: Sequence[str],
    language: str,
    is_relation: bool,
    further: str | None,
    header: HeaderRow,
    max_line_bytes: int,
) -> Iterator[Record | TextBlock]:
    kinds, last = [COLUMNS[name] for name in columns], COLUMNS[further] if further else None
    header = header.in_span(span)
    for block in read_blocks(path, report, max_line_bytes=max_line_bytes, span=span):
        texts, odd = split_texts(
            block, kinds, last, language, is_relation, max_line_bytes,
            asides=block.indices_of(header.line),
        )  # fmt: skip
        if texts is not None:
            n_lines = len(texts.nodes)
            report.n_lines += n_lines
            report.n_further += len(texts.kinds) - n_lines
            yield texts
        if odd.any():
            lines = checked_lines(
                str(path), block, report, chosen=odd, max_line_bytes=max_line_bytes,
                nul_is_text=True,
            )  # fmt: skip
            yield from _texts_of_rows(
                str(path), _tab_separated(lines), report, columns=TextColumns(tuple(columns)),
                language=language, is_relation=is_relation, further=further,
                header=header,
            )  # fmt: skip


def _require_columns(columns: Sequence[str]) -> None:
    wrong = [name for name in columns if name not in (*COLUMNS, "count", "-")]
    if wrong or not columns:
        known = ", ".join((*COLUMNS, "count", "-"))
        raise KgError(f"columns {list(columns)!r}: each must be one of {known}")


def _texts_of_rows(
    file: str,
    rows: Iterable[Row],
    report: DamageReport,
    *,
    columns: TextColumns,
    language: str,
    is_relation: bool,
    header: HeaderRow,
    further: str | None = None,
) -> Iterator[Text]:
    """Yield the texts of rows; `further` as of `read_texts_in_blocks`."""
    for line_no, offset, line, fields in rows:
        if header.passes_over(line_no, fields, report):
            continue
        if is_separator_line(line_no, fields):
            report.n_comment += 1
            continue
        if len(fields) == 1 and _is_aside(line, report):
            continue
        known = [*columns.columns]
        if columns.places and len(fields) > 1:
            fields += [""] * (len(columns.places) - len(fields))
            fields = [fields[index] for index in columns.places] + fields[len(columns.places) :]
        node, *values = fields
        if further:
            known += [further] * (len(values) - len(known))
        fault = ""
        texts: list[Text] = []
        if not node or not 1 <= len(values) <= len(known):
            most = "or more fields" if further else f"to {1 + len(columns.columns)}"
            fault = _field_fault(1 + len(values), f"2 {most}", len(known) + 1)
            fault += _other_separator(line, 2)
        else:
            texts, fault = _texts_of(node, values, known, language, is_relation)
        if fault:
            report.reject(file, line_no, offset, fault, line)
        elif not texts:
            report.skip("line without a text")
        else:
            report.n_further += len(texts) - 1
            yield from texts


def _texts_of(
    node: str, values: Sequence[str], columns: Sequence[str], language: str, is_relation: bool
) -> tuple[list[Text], str]:
    texts: list[Text] = []
    for column, value in zip(columns, values, strict=False):
        if not value or column == "-":
            continue
        if column != "count":
            texts.append(Text(node, COLUMNS[column], value, language, 0, is_relation))
        elif not (re.fullmatch("0*[0-9]{1,10}", value) and int(value[-10:]) < 2**31):
            is_word = re.search(r"[^\W\d]", value)
            of_triples = "; a file of triples is given without --aliases" if is_word else ""
            return [], f"count is not a number from 0 to 2147483647{of_triples}"
        elif texts:
            texts[-1] = texts[-1]._replace(frequency=int(value[-10:]))
    return texts, ""


def _is_aside(line: bytes, report: DamageReport) -> bool:
    if line.startswith(b"#") and not line.partition(b"\t")[2].strip(b"\t"):
        report.n_comment += 1
        return True
    if b"\t" not in line and not line.strip():
        report.n_blank += 1
        return True
    return False


def _field_fault(n_fields: int, expected: str, most: int) -> str:
    is_wrong = not int(expected.split()[0]) <= n_fields <= most
    return f"{counted(n_fields, 'fields')} instead of {expected}" if is_wrong else "empty field"


def _other_separator(line: bytes, n_fields: int) -> str:
    """What to say of a line with other separators than TAB, or of names instead of a triple."""
    if b"\t" in line:
        is_name = n_fields == 3 and line.count(b"\t") == 1
        return "; a file of identifiers and names is given with --labels" if is_name else ""
    if line.count(b",") >= n_fields - 1:
        return (
            "; the line looks comma-separated: name the file .csv, or put TABs between its columns"
        )
    if len(re.findall(rb"\S {2,}(?=\S)", line)) >= n_fields - 1:
        return (
            "; blanks are between its columns (a copy from a page often has them): put one TAB "
            "in their place"
        )
    return ""


def write(graph: KnowledgeGraph, path: str | Path, *, force: bool = False) -> int:
    """Write the triples, sorted, so that `read` gives them back; returns how many.

    Whole or not at all; `force` replaces a file that is there. `SourceError` when a name cannot
    stand in such a line: it is empty or holds TAB, LF or CR.
    """
    names = []
    for vocabulary in (graph.entities, graph.relations):
        rows = vocabulary.array.to_pylist()
        bad = next((name for name in rows if not name or not {*"\t\n\r"}.isdisjoint(name)), None)
        if bad is not None:
            raise SourceError(
                f"the name {bad!r} cannot be written to a TSV file (empty, or TAB, LF or CR "
                f"in it); "
                "export to N-Triples"
            )
        names.append([name.encode() for name in rows])
    return write_lines(path, _rows(graph, *names), force=force)


def _rows(graph: KnowledgeGraph, entities: list[bytes], relations: list[bytes]) -> Iterator[bytes]:
    mark = BOM if graph.n_triples and entities[graph.triples[0, 0]].startswith(BOM) else b""
    for start in range(0, graph.n_triples, 65536):
        for h, r, t in graph.triples[start : start + 65536].tolist():
            yield b"%b%b\t%b\t%b\n" % (mark, entities[h], relations[r], entities[t])
            mark = b""  # the first one is taken for a byte-order mark
