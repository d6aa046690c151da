"""Triples in a Parquet file: three columns of strings or whole numbers, known by their names.

Columns of texts about the ends are read, and a file of nodes gives texts, as in CSV.

A file is read a batch of rows at a time. It has no lines: rejections name rows, from 1, and a file
that is damaged is refused whole under every policy, as its index stands at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kg_loaders.budget import FREE_BYTES
from kg_loaders.damage import DamageReport
from kg_loaders.errors import KgError, SourceError
from kg_loaders.formats.field_names import HEADS, RELATIONS, TAILS
from kg_loaders.formats.tables.layout import (
    Header,
    NodeLayout,
    TripleLayout,
    by_letters,
    layout_of,
    left_out,
    long_layout,
    named_layout,
    require_header,
    require_order,
)
from kg_loaders.formats.tables.rows import RowReader
from kg_loaders.reading.blocks import TripleBlock, taken
from kg_loaders.reading.unpacking import is_packed
from kg_loaders.records import Record

ROWS_AT_ONCE = 1 << 17
EXPORTED = [*("head", "relation", "tail"), *("head_label", "relation_label", "tail_label")]
"""The columns that `kept kg export` writes: its labels are for readers, in no language."""


def read(
    path: str | Path,
    report: DamageReport,
    *,
    order: str | None = None,
    header: Header | bool = "auto",
) -> Iterator[Record]:
    """The triples and texts, a row at a time."""
    for item in read_in_blocks(path, report, order=order, header=header):
        if isinstance(item, TripleBlock):
            yield from item.records()
        else:
            yield item


def read_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    order: str | None = None,
    header: Header | bool = "auto",
) -> Iterator[Record | TripleBlock]:
    """The same, many at once where a row is a triple and no more.

    `order` is that of `layout_of`; with `header="no"` the columns are taken by their place.

    Raises `SourceError` where a column is missing or holds something else, or the file cannot be
    read; `BudgetError` for one that unfolds beyond the budget.
    """
    report.units = "rows"
    order, header = require_order(order), require_header(header)
    if is_packed(Path(path)):
        raise SourceError(
            f"{path}: Parquet is not read from a packed file, as it is read out of order; unpack "
            "it and name the unpacked file"
        )
    try:
        yield from _blocks(Path(path), report, order, header)
    except KgError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # names that are no UTF-8, too
        if isinstance(error, FileNotFoundError):
            raise SourceError(f"{path} does not exist") from error
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path} cannot be read as Parquet: {reason}; fetch it again") from error


def _blocks(
    path: Path, report: DamageReport, order: str | None, header: Header
) -> Iterator[Record | TripleBlock]:
    with pq.ParquetFile(path) as file:
        layout = _layout(path, file, order, header)
        require_affordable(path, file, report)
        places = _places(layout)
        _require_names(path, file.schema_arrow, places)
        if layout.unused and order is None:
            report.notes.append(left_out(str(path), layout.unused))
        rows = None if _is_plain(layout) else RowReader(layout, report)
        names = [file.schema_arrow.names[position] for position in places]
        n_read = 0
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(dict.fromkeys(names))):
            columns = [batch.column(name).cast(pa.string()) for name in names]
            if rows is None:
                block = _block(path, columns, report, n_read)
                items: list[Record | TripleBlock] = [block] if len(block.ends) else []
            else:
                items = list(_records(path, columns, places, layout, rows, report, n_read))
            n_read += batch.num_rows
            report.n_lines += batch.num_rows
            if report.progress is not None:
                report.progress(path.stat().st_size * n_read // file.metadata.num_rows)
            yield from items


def _layout(
    path: Path, file: pq.ParquetFile, order: str | None, header: Header
) -> TripleLayout | NodeLayout:
    """What the columns are; their names are a header that is there always."""
    names = file.schema_arrow.names
    if header == "wide":
        raise SourceError(
            f"{path}: header wide is for CSV and TSV; write it as CSV (pandas.read_parquet, to_csv)"
        )
    if order is None and header == "no":
        order = "hrt" + "-" * (len(names) - 3)
    if order is not None and "," not in order:
        if len(order) != len(names):
            raise SourceError(
                f"{path} has {len(names)} columns, {names}, and order {order!r} names {len(order)}"
            )
        return by_letters(order, names, has_header=True)
    if order is not None:
        layout = layout_of([names], str(path), order=order, header="yes")
        assert isinstance(layout, TripleLayout)
        return layout
    if names == EXPORTED:
        return by_letters("hrt---", names, has_header=True)
    known = named_layout(names) or long_layout(names)
    if not isinstance(known, TripleLayout | NodeLayout):
        wanted = "; ".join(", ".join(names) for names in (HEADS, RELATIONS, TAILS))
        raise SourceError(
            f"{path} has the columns {names}; name those of head, relation and tail with --order, "
            f"or rename them; one of each is needed: {wanted}"
        )
    return known


def _is_plain(layout: TripleLayout | NodeLayout) -> bool:
    if not isinstance(layout, TripleLayout):
        return False
    return layout.values == "names" and not (layout.texts or layout.sources or layout.negations)


def _places(layout: TripleLayout | NodeLayout) -> list[int]:
    """The columns that are read; of a plain layout head, relation, tail."""
    if isinstance(layout, NodeLayout):
        places = [layout.node, layout.language, layout.source, *(c for _, c in layout.texts)]
        return [position for position in places if position >= 0]
    further = [*layout.sources.values(), *layout.negations, *(c for _, _, c in layout.texts)]
    return [layout.head, layout.relation, layout.tail, *further]


def _require_names(path: Path, schema: pa.Schema, places: list[int]) -> None:
    for position in places:
        kind = schema.field(position).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        is_name = pa.types.is_integer(plain) or pa.types.is_boolean(plain)
        if not (is_name or plain in (pa.string(), pa.large_string())):
            raise SourceError(
                f"{path}: column {schema.names[position]!r} holds {kind}, no names; write them as "
                "strings or whole numbers"
            )


def _records(
    path: Path,
    columns: list[Any],
    places: list[int],
    layout: TripleLayout | NodeLayout,
    rows: RowReader,
    report: DamageReport,
    n_read: int,
) -> Iterator[Record]:
    """The records of a batch, row by row."""
    cells = [column.to_pylist() for column in columns]
    for number in range(len(columns[0])):
        fields = [""] * layout.n_fields
        for position, column in zip(places, cells, strict=True):
            fields[position] = column[number] or ""
        records, fault = rows.records(fields)
        yield from records
        if fault:
            raw = "\t".join(fields).encode()
            report.reject(str(path), n_read + number + 1, 0, fault, raw)


def require_affordable(path: Path, file: pq.ParquetFile, report: DamageReport) -> None:
    """Raise `BudgetError` for a file that unfolds to more than the budget allows."""
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    n_bytes = sum(int(group.total_byte_size) for group in groups)
    limit = report.budget.expansion
    if n_bytes > FREE_BYTES + limit * path.stat().st_size:
        what = f"it unfolds to more than {limit} times its size"
        raise report.budget.error(str(path), "expansion", what)


def _block(path: Path, columns: list[Any], report: DamageReport, n_read: int) -> TripleBlock:
    """The triples of whole rows; the others are rejected."""
    whole = np.ones(len(columns[0]), np.bool_)
    for column in columns:
        lengths = pc.fill_null(pc.binary_length(column), 0)
        whole &= lengths.to_numpy(zero_copy_only=False) > 0
    for row in np.flatnonzero(~whole).tolist():
        fields = [column[row].as_py() or "" for column in columns]
        reason, raw = "empty field", "\t".join(fields).encode()
        report.reject(str(path), n_read + row + 1, 0, reason, raw)
    chosen = pa.array(whole)
    heads, relations, tails = (column.filter(chosen) for column in columns)
    ends = pa.concat_arrays([heads, tails]).dictionary_encode()
    kinds = relations.dictionary_encode()
    ids = np.asarray(ends.indices, np.int32).reshape(2, -1).T
    names, ids = taken(ends.dictionary, np.ascontiguousarray(ids))
    return TripleBlock(ids, np.asarray(kinds.indices, np.int32), names, kinds.dictionary)
