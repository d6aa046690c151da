"""Rows of JSON files, one at a time: what every reader of annotations shares.

The readers are lazy and take a `DamageReport`: the caller decides whether a faulty row stops the
reading or is skipped and counted; every row ends as a text, a blank or a rejection.
Files may be compressed (.gz, .bz2, .zst). An object that names a key twice is a faulty row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from entity_linking.errors import LinkingError
from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.rdf.nesting import check_json
from kg_loaders.reading.lines import BOM, JSON_FAULTS, read_lines, read_whole
from kg_loaders.reading.repeated_keys import repeats_fault

Row = TypeVar("Row")
Example = TypeVar("Example")


def read_rows(
    path: str | Path, report: DamageReport, row_type: type[Row], convert: Callable[[Row], Example]
) -> Iterator[Example]:
    """One JSON object a line; a row that does not fit `row_type` or its text is rejected."""
    decoder = msgspec.json.Decoder(row_type)
    for line, offset, raw in read_lines(path, report):
        if not raw.strip():
            report.n_blank += 1
            continue
        yield from convert_row(raw, decoder, convert, report, (str(path), line, offset))


def read_array(
    path: str | Path, report: DamageReport, row_type: type[Row], convert: Callable[[Row], Example]
) -> Iterator[Example]:
    """One JSON array a file; its rows take the place of lines, in the counts and in messages."""
    report.units = "rows"
    decoder = msgspec.json.Decoder(row_type)
    data = whole_file(path, report.budget)
    rows = decode_whole(path, data, list[msgspec.Raw], report.budget)
    end = 0
    for number, row in enumerate(rows, 1):
        raw = bytes(row)
        offset = data.index(raw, end)
        end = offset + len(raw)
        report.n_lines += 1
        yield from convert_row(raw, decoder, convert, report, (str(path), number, offset))


def whole_file(path: str | Path, budget: ReaderBudget | None = None) -> bytes:
    """The decompressed bytes; a damaged stream is a `SourceError`, whatever the policy."""
    return read_whole(path, budget).removeprefix(BOM)


def decode_whole(path: str | Path, data: bytes, shape: type[Row], budget: ReaderBudget) -> Row:
    """A JSON file that holds one value; `SourceError` when it is not `shape`, or too much."""
    check_json(str(path), data, budget)
    try:
        data.decode()  # what a `Raw` holds is not looked at
        return msgspec.json.decode(data, type=shape)
    except JSON_FAULTS as error:
        raise SourceError(
            f"{path}: {error}; this is not the JSON that the reader expects"
        ) from error


def decode_row(raw: bytes, decoder: msgspec.json.Decoder[Row]) -> Row:
    """What a row says; DecodeError for another shape, LinkingError for a key that stands twice."""
    row = decoder.decode(raw)
    if fault := repeats_fault(raw):
        raise LinkingError(fault)
    return row


def convert_row(
    raw: bytes,
    decoder: msgspec.json.Decoder[Row],
    convert: Callable[[Row], Example],
    report: DamageReport,
    position: tuple[str, int, int],
) -> Iterator[Example]:
    """What a row holds, counted; nothing for a faulty one, which the report takes or raises."""
    try:
        example = convert(decode_row(raw, decoder))
    except (*JSON_FAULTS, LinkingError) as error:
        report.reject(*position, str(error), raw)
        return
    report.n_texts += 1
    yield example
