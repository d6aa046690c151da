"""Neo4j's CSV files: what APOC exports, and what `neo4j-admin database import` takes.

    _id,_labels,name,born,_start,_end,_type          apoc.export.csv.all, nodes and relationships
    ":Person",..                                     labels stand with colons between them
    personId:ID(Person),name,:LABEL                  an import's nodes; labels have ";" between them
    :START_ID(Person),role,:END_ID(Movie),:TYPE      an import's relationships

A node's labels are its types; its name is the first of `name`, `label`, `title` that it has, its
aliases are in `aliases`, its description is in `description`. Other properties have no place in a
graph and are counted. Identifiers are Neo4j's own, in an import's groups behind the group's name
(`Person:12`). Fields may be quoted and hold commas and line ends (RFC 4180); a row is the unit that
is counted.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.records import Record, Text, TextKind, Triple

NAMES = ("name", "label", "title")
UNNAMED = "node without a name, label or description"
_Row = tuple[int, int, bytes]


@dataclass(slots=True)
class _Columns:
    """Places of the columns; -1 where there is none. `properties`: name and place of the rest."""

    node: int = -1
    labels: int = -1
    start: int = -1
    end: int = -1
    type: int = -1
    node_group: str = ""
    start_group: str = ""
    end_group: str = ""
    properties: dict[str, int] = field(default_factory=dict)
    is_apoc: bool = True

    @property
    def has_relations(self) -> bool:
        return min(self.start, self.end, self.type) >= 0


def read(
    path: str | Path, report: DamageReport, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Record]:
    """The triples and texts of every row; SourceError where the first is no header of Neo4j's."""
    report.units = "rows"
    file = str(path)
    lines = read_lines(path, report, max_line_bytes=max_line_bytes)
    rows = _rows(file, lines, report, max_line_bytes)
    header = next(rows, None)
    if header is None:
        raise SourceError(f"{file} is empty: the first row names the columns")
    report.n_comment += 1
    names, _ = _fields(header[2])
    columns = _columns_of(names, file)
    for number, offset, raw in rows:
        cells, fault = _fields(raw)
        if not cells and not fault:
            report.n_blank += 1
            continue
        if not fault and len(cells) != len(names):
            fault = f"{len(cells)} fields instead of {len(names)}"
        records = [] if fault else list(_records(cells, columns, report))
        fault = fault or ("" if records else _fault(cells, columns))
        if fault:
            report.reject(file, number, offset, fault, raw)
        elif not records:
            report.skip(UNNAMED)
        else:
            report.n_further += len(records) - 1
            yield from records


def _rows(
    file: str, lines: Iterator[_Row], report: DamageReport, max_row_bytes: int
) -> Iterator[_Row]:
    """Lines joined where a quoted field goes on; each counts once."""
    waiting: list[bytes] = []
    first = last = start = n_bytes = n_quotes = 0
    for number, offset, line in lines:
        fault = ""
        if waiting and number != last + 1:
            fault = "a line of the row was rejected"
        elif waiting and n_bytes + len(line) > max_row_bytes:
            fault = f"a quoted field does not end within {max_row_bytes} bytes"
        if fault:
            report.reject(file, first, start, fault, b"\n".join(waiting))
            waiting = []
        if not waiting:
            first, start, n_bytes, n_quotes = number, offset, 0, 0
        else:
            report.n_lines -= 1
        waiting.append(line)
        last, n_bytes, n_quotes = number, n_bytes + len(line), n_quotes + line.count(b'"')
        if n_quotes % 2 == 0:
            yield first, start, b"\n".join(waiting)
            waiting = []
    if waiting:
        report.reject(file, first, start, "a quoted field does not end", b"\n".join(waiting))


def _fields(raw: bytes) -> tuple[list[str], str]:
    """The fields of a row, none of a blank one; and what is wrong with it as CSV."""
    if not raw.strip():
        return [], ""
    try:
        return next(csv.reader([raw.decode()], strict=True)), ""
    except csv.Error as error:
        return [], f"not CSV: {error}"


def _columns_of(names: Sequence[str], file: str) -> _Columns:
    """The columns that a header names, in either of the two forms."""
    own = {"_id": "node", "_labels": "labels", "_start": "start", "_end": "end", "_type": "type"}
    imported = {"ID": "node", "LABEL": "labels", "START_ID": "start", "END_ID": "end",
                "TYPE": "type"}  # fmt: skip
    columns = _Columns(is_apoc=any(name in own for name in names))
    for place, name in enumerate(names):
        title, _, kind = name.partition(":")
        bare, _, group = kind.removesuffix(")").partition("(")
        if columns.is_apoc and name in own:
            setattr(columns, own[name], place)
        elif not columns.is_apoc and bare in imported:
            setattr(columns, imported[bare], place)
            if f"{imported[bare]}_group" in _Columns.__slots__:
                setattr(columns, f"{imported[bare]}_group", group)
        elif bare != "IGNORE":
            columns.properties[name if columns.is_apoc else title] = place
    if columns.node < 0 and not columns.has_relations:
        raise SourceError(
            f"{file}: the first row names no columns of Neo4j's: _id,_labels,... or "
            "_start,_end,_type of APOC, :ID or :START_ID,:END_ID,:TYPE of an import"
        )
    return columns


def _fault(cells: Sequence[str], columns: _Columns) -> str:
    """What is wrong with a row that gave no record; "" for a node of which nothing is said."""
    if columns.node >= 0 and cells[columns.node]:
        return ""
    return "neither a node nor a relationship: an identifier, both ends or the type is empty"


def _records(cells: Sequence[str], columns: _Columns, report: DamageReport) -> Iterator[Record]:
    """A relationship's triple, or a node's texts; counts the properties that have no place."""
    if columns.has_relations:
        ends = cells[columns.start], cells[columns.type], cells[columns.end]
        if all(ends):
            _count_properties(cells, columns, report, "a relationship", ())
            yield Triple(
                _id(ends[0], columns.start_group), ends[1], _id(ends[2], columns.end_group)
            )
            return
    if columns.node < 0 or not cells[columns.node]:
        return
    node = _id(cells[columns.node], columns.node_group)
    said = {name: cells[place] for name, place in columns.properties.items() if cells[place]}
    name = next((said[key] for key in NAMES if key in said), "")
    texts = [(TextKind.LABEL, name)] if name else []
    texts += [(TextKind.ALIAS, each) for each in _list(said.get("aliases", ""))]
    if "description" in said:
        texts.append((TextKind.DESCRIPTION, said["description"]))
    labels = cells[columns.labels] if columns.labels >= 0 else ""
    texts += [(TextKind.TYPE, each) for each in labels.split(":" if columns.is_apoc else ";")]
    texts = [text for text in texts if text[1]]
    if texts:
        taken = (next((key for key in NAMES if key in said), ""), "aliases", "description")
        _count_properties(cells, columns, report, "a node", taken)
    for kind, value in texts:
        yield Text(node, kind, value)


def _count_properties(
    cells: Sequence[str],
    columns: _Columns,
    report: DamageReport,
    owner: str,
    taken: Sequence[str],
) -> None:
    for name, place in columns.properties.items():
        if cells[place] and name not in taken:
            report.skip(f"property {name} of {owner}")
            report.n_further += 1


def _id(value: str, group: str) -> str:
    return f"{group}:{value}" if group else value


def _list(text: str) -> list[str]:
    """An array of APOC's, which is JSON, or of an import's, with ";" between its items."""
    if text.startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str])
        except msgspec.DecodeError:
            pass  # a name that begins with a bracket
    return text.split(";") if text else []
