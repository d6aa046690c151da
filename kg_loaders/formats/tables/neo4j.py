"""Neo4j's CSV files: what APOC exports, and what `neo4j-admin database import` takes.

    _id,_labels,name,born,_start,_end,_type          apoc.export.csv.all, nodes and relationships
    ":Person",..                                     labels stand with colons between them
    personId:ID(Person),name,:LABEL                  an import's nodes; labels have ";" between them
    :START_ID(Person),role,:END_ID(Movie),:TYPE      an import's relationships
    ~id,~label,name:String   ~id,~from,~to,~label    Neptune's vertices and edges

A node's labels are its types; its name, aliases and description are the first properties that are
called so (`kg_loaders.formats.field_names`). Other properties have no place in a graph and are
counted. Identifiers are Neo4j's own, in an import's groups behind the group's name
(`Person:12`). Fields may be quoted and hold commas and line ends (RFC 4180); a row is the unit that
is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kg_loaders.counting import counted
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.formats.field_names import (
    ALIASES,
    DESCRIPTIONS,
    LABELS,
    first_of,
    plain_name,
)
from kg_loaders.formats.tables.start import HeaderRow
from kg_loaders.reading.csv_rows import CsvRows
from kg_loaders.reading.lines import MAX_LINE_BYTES, read_lines
from kg_loaders.records import Record, Text, TextKind, Triple

UNNAMED = "node without a name, label or description"


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
    path: str | Path,
    report: DamageReport,
    *,
    delimiter: str = ",",
    has_blanks: bool = False,
    encoding: str | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Triples and texts of every row; `has_blanks` leaves out the blanks behind delimiters.

    Raises `SourceError` if the first row is not a header of Neo4j.
    """
    report.units = "rows"
    file = str(path)
    lines = read_lines(path, report, max_line_bytes=max_line_bytes, encoding=encoding)
    rows = iter(CsvRows(
        file, lines, report, delimiter=delimiter, max_row_bytes=max_line_bytes,
        has_blanks=has_blanks,
    ))  # fmt: skip
    header = next(rows, None)
    if header is None:
        raise SourceError(f"{file} is empty: the first row names the columns")
    report.n_comment += 1
    names = header.fields
    columns = _columns_of(names, file)
    again = HeaderRow(header.line_no, tuple(names))
    for number, offset, raw, cells in rows:
        if again.passes_over(number, cells, report):
            continue
        if not raw.strip():
            report.n_blank += 1
            continue
        fault = (
            ""
            if len(cells) == len(names)
            else f"{counted(len(cells), 'fields')} instead of {len(names)}"
        )
        records = [] if fault else list(_records(cells, columns, report))
        fault = fault or ("" if records else _fault(cells, columns))
        if fault:
            report.reject(file, number, offset, fault, raw)
        elif not records:
            report.skip(UNNAMED)
        else:
            report.n_further += len(records) - 1
            yield from records


def _columns_of(names: Sequence[str], file: str) -> _Columns:
    """The columns that a header names, in either of the two forms."""
    roles = {"_id": "node", "_labels": "labels", "_start": "start", "_end": "end", "_type": "type"}
    names = [name.strip("\ufeff ") for name in names]
    columns = _Columns(is_apoc=any(name in roles for name in names))
    neptune = _neptune_columns(names)
    for position, name in enumerate(names):
        title, _, kind = name.partition("{")[0].partition(":")
        plain_kind, _, group = kind.strip().removesuffix(")").partition("(")
        role = (
            roles.get(name)
            if columns.is_apoc
            else neptune.get(name) or _IMPORTED.get(plain_kind.upper())
        )
        if role is not None:
            if getattr(columns, role) >= 0:
                what = "an identifier" if role == "node" else f"the {role}"
                raise SourceError(
                    f"{file}: the first row, {', '.join(names)[:200]!r}, has two columns of "
                    f"{what}; make them one: a composite identifier is not read"
                )
            setattr(columns, role, position)
            if f"{role}_group" in _Columns.__slots__:
                setattr(columns, f"{role}_group", group)
        elif plain_kind.upper() != "IGNORE" and not (neptune and name == "~id"):
            columns.properties[name if columns.is_apoc else title] = position
    if columns.type < 0 <= min(columns.start, columns.end):
        raise SourceError(
            f"{file}: the first row, {', '.join(names)[:200]!r}, names both ends of relationships "
            "but not what they are: add a column :TYPE (neo4j-admin takes it from its command line)"
        )
    if columns.node < 0 and not columns.has_relations:
        raise SourceError(
            f"{file}: the first row names no columns of Neo4j's: _id,_labels,... or "
            "_start,_end,_type of APOC, :ID or :START_ID,:END_ID,:TYPE of an import"
        )
    return columns


_IMPORTED = {"ID": "node", "LABEL": "labels", "START_ID": "start", "END_ID": "end", "TYPE": "type"}


def _neptune_columns(names: Sequence[str]) -> dict[str, str]:
    """What the columns of Amazon Neptune are, by their names; empty for other tables."""
    if {"~from", "~to", "~label"} <= {*names}:
        return {"~from": "start", "~to": "end", "~label": "type"}
    return {"~id": "node", "~label": "labels"} if {"~id", "~label"} <= {*names} else {}


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
    properties = {plain_name(name): cells[index] for name, index in columns.properties.items()}
    properties = {name: value for name, value in properties.items() if value}
    label, aliases, description = (first_of(n, properties) for n in (LABELS, ALIASES, DESCRIPTIONS))
    texts = [(TextKind.LABEL, label[1])] if label else []
    texts += [(TextKind.ALIAS, each) for each in _list(aliases[1] if aliases else "")]
    texts += [(TextKind.DESCRIPTION, description[1])] if description else []
    labels = cells[columns.labels] if columns.labels >= 0 else ""
    texts += [(TextKind.TYPE, each) for each in labels.split(":" if columns.is_apoc else ";")]
    texts = [text for text in texts if text[1]]
    if texts:
        taken = tuple(each[0] for each in (label, aliases, description) if each)
        _count_properties(cells, columns, report, "a node", taken)
    for kind, value in texts:
        yield Text(node, kind, value)


def _count_properties(
    cells: Sequence[str], columns: _Columns, report: DamageReport, owner: str, taken: Sequence[str]
) -> None:
    for name, position in columns.properties.items():
        if cells[position] and plain_name(name) not in taken:
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
