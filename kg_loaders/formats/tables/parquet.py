"""Triples in a Parquet file: three columns of strings or whole numbers, told by their names.

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

from kg_loaders.damage import DamageReport
from kg_loaders.errors import KgError, SourceError
from kg_loaders.formats.tables.columns_by_name import NAMES, places_of
from kg_loaders.reading.blocks import TripleBlock, taken
from kg_loaders.reading.budget import FREE_BYTES
from kg_loaders.records import Triple

ROWS_AT_ONCE = 1 << 17


def read(path: str | Path, report: DamageReport) -> Iterator[Triple]:
    """The triples, one a row."""
    for item in read_in_blocks(path, report):
        yield from item.records()


def read_in_blocks(path: str | Path, report: DamageReport) -> Iterator[TripleBlock]:
    """The same, many at once.

    Raises `SourceError` where a column is missing or holds something else, or the file cannot be
    read; `BudgetError` for one that unfolds beyond the budget.
    """
    report.units = "rows"
    try:
        yield from _blocks(Path(path), report)
    except KgError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # names that are no UTF-8, too
        if isinstance(error, FileNotFoundError):
            raise SourceError(f"{path} does not exist") from error
        reason = str(error).splitlines()[0]
        raise SourceError(f"{path} cannot be read as Parquet: {reason}; fetch it again") from error


def _blocks(path: Path, report: DamageReport) -> Iterator[TripleBlock]:
    with pq.ParquetFile(path) as file:
        names = _columns(path, file)
        _require_affordable(path, file, report)
        n_read = 0
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=list(dict.fromkeys(names))):
            columns = [batch.column(name).cast(pa.string()) for name in names]
            block = _block(path, columns, report, n_read)
            n_read += batch.num_rows
            report.n_lines += batch.num_rows
            if report.progress is not None:
                report.progress(path.stat().st_size * n_read // file.metadata.num_rows)
            if len(block.ends):
                yield block


def _columns(path: Path, file: pq.ParquetFile) -> list[str]:
    """The names of head, relation and tail."""
    schema = file.schema_arrow
    places = places_of(schema.names)
    if places is None:
        wanted = "; ".join(", ".join(names) for names in NAMES)
        raise SourceError(f"{path} has the columns {schema.names}; one of each is asked: {wanted}")
    for place in places:
        kind = schema.field(place).type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_integer(plain) or plain in (pa.string(), pa.large_string())):
            raise SourceError(
                f"{path}: column {schema.names[place]!r} holds {kind}, no names; write them as "
                "strings or whole numbers"
            )
    return [schema.names[place] for place in places]


def _require_affordable(path: Path, file: pq.ParquetFile, report: DamageReport) -> None:
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
