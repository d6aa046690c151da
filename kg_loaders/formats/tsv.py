"""Triples and texts in tab-separated lines, byte for byte: no quoting, no trimming, no NA.

A line is blank when nothing but white space and no TAB is in it, and a comment when it starts with
"#" and has no TAB; a line that starts with "#" and has TABs is data. All else must have the right
number of fields, none of them empty, or it is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kg_loaders.damage import DamageReport
from kg_loaders.disk.writing import write_lines
from kg_loaders.errors import KgError, SourceError
from kg_loaders.formats.text_blocks import split_texts
from kg_loaders.formats.tsv_blocks import split_triples
from kg_loaders.reading.blocks import TextBlock, TripleBlock
from kg_loaders.reading.lines import (
    BOM,
    MAX_LINE_BYTES,
    Span,
    checked_lines,
    read_blocks,
    read_lines,
)
from kg_loaders.reading.workers import Workers
from kg_loaders.records import Record, Text, TextKind, Triple
from kg_loaders.store import KnowledgeGraph

ORDERS = ("hrt", "htr", "rht", "rth", "thr", "trh")
COLUMNS = {
    "label": TextKind.LABEL,
    "alias": TextKind.ALIAS,
    "description": TextKind.DESCRIPTION,
    "type": TextKind.TYPE,
}


def read(
    path: str | Path,
    report: DamageReport,
    *,
    order: str = "hrt",
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Triple]:
    """Triples, one per line; `order` names the columns (OpenKE "htr", ConceptNet "rht")."""
    lines = read_lines(path, report, max_line_bytes=max_line_bytes, nul_is_text=True)
    yield from _triples(str(path), lines, report, _require_order(order))


def read_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    order: str = "hrt",
    max_line_bytes: int = MAX_LINE_BYTES,
    workers: Workers | None = None,
) -> Iterator[Triple | TripleBlock]:
    """What `read` reads, many lines at once; the odd lines of a block follow its regular ones."""
    reader = partial(_read_span, order=_require_order(order), max_line_bytes=max_line_bytes)
    yield from (workers or Workers()).read(reader, Path(path), report)


def _read_span(
    path: Path, report: DamageReport, span: Span, *, order: str, max_line_bytes: int
) -> Iterator[Triple | TripleBlock]:
    file = str(path)
    for block in read_blocks(path, report, max_line_bytes=max_line_bytes, span=span):
        triples, odd = split_triples(block, order, max_line_bytes)
        if triples is not None:
            report.n_lines += len(triples.ends)
            yield triples
        if odd.any():
            lines = checked_lines(
                file, block, report, chosen=odd, max_line_bytes=max_line_bytes, nul_is_text=True
            )
            yield from _triples(file, lines, report, order)


def _require_order(order: str) -> str:
    if order not in ORDERS:
        raise KgError(f"order {order!r} is none of {', '.join(ORDERS)}")
    return order


def _triples(
    file: str, lines: Iterable[tuple[int, int, bytes]], report: DamageReport, order: str
) -> Iterator[Triple]:
    head, relation, tail = (order.index(letter) for letter in "hrt")
    for line_no, offset, line in lines:
        fields = line.decode().split("\t")
        if len(fields) == 3 and fields[0] and fields[1] and fields[2]:
            yield Triple(fields[head], fields[relation], fields[tail])
        elif not _is_aside(line, report):
            reason = _field_fault(len(fields), "3", 3) + _by_commas(line, 3)
            report.reject(file, line_no, offset, reason, line)


def read_texts(
    path: str | Path,
    report: DamageReport,
    *,
    columns: Sequence[str] = ("label", "description"),
    language: str = "en",
    is_relation: bool = False,
    header: bool = False,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Texts about nodes: an identifier, then one field per column; an identifier may repeat.

    Columns: "label", "alias", "description", "type"; "count" is the frequency of the alias before
    it, "-" is passed over. Fields at the end may be missing and, save the identifier, be empty. A
    `header` line counts as a comment.
    """
    _require_columns(columns)
    lines = read_lines(path, report, max_line_bytes=max_line_bytes, nul_is_text=True)
    if header and next(lines, None) is not None:
        report.n_comment += 1
    yield from texts_of_lines(
        str(path), lines, report, columns=columns, language=language, is_relation=is_relation
    )


def read_texts_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    columns: Sequence[str] = ("label", "description"),
    language: str = "en",
    is_relation: bool = False,
    further: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    workers: Workers | None = None,
    **options: Any,
) -> Iterator[Record | TextBlock]:
    """What `read_texts` reads, many lines at once; the odd lines of a block follow its others.

    Line by line where a line is no row of texts alone: with a header or counts; then without
    `workers`. `further` is the
    column of all fields that follow.
    """
    _require_columns((*columns, *([further] if further else ())))
    how: Any = {"columns": columns, "language": language, "is_relation": is_relation}
    if options.get("header") or not COLUMNS.keys() >= {*columns}:
        if workers is not None:
            workers.leave_out(Path(path), report)
        yield from read_texts(path, report, max_line_bytes=max_line_bytes, **how, **options)
        return
    reader = partial(_read_texts_span, further=further, max_line_bytes=max_line_bytes, **how)
    yield from (workers or Workers()).read(reader, Path(path), report)


def _read_texts_span(
    path: Path,
    report: DamageReport,
    span: Span,
    *,
    columns: Sequence[str],
    language: str,
    is_relation: bool,
    further: str | None,
    max_line_bytes: int,
) -> Iterator[Record | TextBlock]:
    kinds, last = [COLUMNS[name] for name in columns], COLUMNS[further] if further else None
    for block in read_blocks(path, report, max_line_bytes=max_line_bytes, span=span):
        texts, odd = split_texts(block, kinds, last, language, is_relation, max_line_bytes)
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
            yield from texts_of_lines(
                str(path), lines, report, columns=columns, language=language,
                is_relation=is_relation, further=further,
            )  # fmt: skip


def _require_columns(columns: Sequence[str]) -> None:
    wrong = [name for name in columns if name not in (*COLUMNS, "count", "-")]
    if wrong or not columns:
        known = ", ".join((*COLUMNS, "count", "-"))
        raise KgError(f"columns {list(columns)!r}: each must be one of {known}")


def texts_of_lines(
    file: str,
    lines: Iterable[tuple[int, int, bytes]],
    report: DamageReport,
    *,
    columns: Sequence[str],
    language: str,
    is_relation: bool,
    further: str | None = None,
) -> Iterator[Text]:
    """Yield the texts of lines as `read_lines` yields them; `further` as `read_texts_in_blocks`."""
    for line_no, offset, line in lines:
        node, *values = line.decode().split("\t")
        if not values and _is_aside(line, report):
            continue
        fault = ""
        texts: list[Text] = []
        known = [*columns, *[further or ""] * (len(values) - len(columns) if further else 0)]
        if not node or not 1 <= len(values) <= len(known):
            most = "or more fields" if further else f"to {1 + len(columns)}"
            fault = _field_fault(1 + len(values), f"2 {most}", len(known) + 1)
            fault += _by_commas(line, 2)
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
            return [], "count is not a number from 0 to 2147483647"
        elif texts:
            texts[-1] = texts[-1]._replace(frequency=int(value[-10:]))
    return texts, ""


def _is_aside(line: bytes, report: DamageReport) -> bool:
    if b"\t" in line:
        return False
    if not line.strip():
        report.n_blank += 1
        return True
    if line.startswith(b"#"):
        report.n_comment += 1
        return True
    return False


def _field_fault(n_fields: int, expected: str, most: int) -> str:
    is_wrong = not int(expected.split()[0]) <= n_fields <= most
    return f"{n_fields} fields instead of {expected}" if is_wrong else "empty field"


def _by_commas(line: bytes, n_fields: int) -> str:
    """What to say of a line that has no TAB but commas enough."""
    if b"\t" in line or line.count(b",") < n_fields - 1:
        return ""
    return "; the line looks comma-separated: name the file .csv, or put TABs between its columns"


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
                f"the name {bad!r} cannot stand in a TSV file (empty, or TAB, LF or CR in it); "
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
