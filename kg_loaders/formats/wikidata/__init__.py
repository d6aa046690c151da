"""Wikidata's JSON dump: one array, one entity per line, plain or compressed, read as a stream.

Also what Special:EntityData and wbgetentities answer (`{"entities": {"Q90": {...}}}`) and an array
or an object in any layout: read as a whole (`ReaderBudget`), and entities are what is counted.

    labels, aliases, descriptions   texts; of a property (P17) texts of the relation
    truthy statement, item to item  a triple; P31 also or instead a `TYPE` text (see `types`)
    qualifiers, where asked for     the statement is a node: (Q42, p:P39, S), (S, ps:P39, Q11696),
                                    (S, pq:P642, Q30), beside (Q42, P39, Q11696), as in its RDF

Truthy, as in Wikidata's own truthy dump: the preferred statements of a property, or else the
normal ones; deprecated ones never. What a graph has no place for is skipped and counted by kind:
values that are not items (dates, numbers, strings; so are most qualifiers), somevalue and novalue,
statements about properties, lexemes, redirects, deleted entities. References are not looked at, nor
is what the options leave out: other languages, other properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kg_loaders.damage import DamageReport
from kg_loaders.formats.wikidata import documents
from kg_loaders.formats.wikidata.entities import NumberedError, decoder
from kg_loaders.formats.wikidata.members import only_members
from kg_loaders.formats.wikidata.selection import EntityColumns, Selection
from kg_loaders.rdf.records import Types
from kg_loaders.reading.blocks import Block, TextBlock, TripleBlock
from kg_loaders.reading.lines import (
    JSON_FAULTS,
    MAX_LINE_BYTES,
    LineBlock,
    checked_lines,
    fault_of,
    read_blocks,
)
from kg_loaders.reading.parts import Parts, kept_parts
from kg_loaders.records import Record

BLOCK_ROWS = 50_000
"""Triples and texts that are handed on at once."""
_COMMA, _CR = ord(","), ord("\r")
_SHORT = 100
"""Bytes of a line that may be blank, white space included."""


def read(
    path: str | Path,
    report: DamageReport,
    *,
    languages: Sequence[str] | None = ("en",),
    types: Types = "triple",
    ranks: str = "truthy",
    qualifiers: bool = False,
    properties: Sequence[str] | None = None,
    sitelinks: Sequence[str] | None = None,
    instances_of: Sequence[str] = (),
    inner: bool = False,
    work: str | Path | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Read a dump; see the module for what becomes what.

    The lines "[" and "]" count as blank. What a line gives or skips beside the first is counted in
    `report.n_further`.

    Args:
        languages: Wikidata's language codes, exactly, to which "mul" (names that are the same in
            all languages) is added; None reads every language.
        types: whether an instance-of statement is a triple, a `TYPE` text, or both.
        ranks: "truthy"; "all" takes normal statements beside preferred ones; "deprecated" all.
        qualifiers: whether statements with an item as qualifier become nodes, too.
        properties: the only ones whose statements are taken; none named takes all.
        sitelinks: only items that have one of these (`enwiki`).
        instances_of: only items that are an instance of one of these classes or of a subclass of
            it, P31/P279*. That is known at the end of the dump; until then all waits on the disk.
        inner: only triples between items that are chosen; else their tails may be any.
        work: folder in which parts of what is read are kept, so that a reading that was cut goes on
            there (`kg_loaders.reading.parts`).
        max_line_bytes: limit of a line.

    Raises `DamageError`, `SourceError`; `KgError` for options that cannot be.
    """
    blocks = read_in_blocks(
        path, report, languages=languages, types=types, ranks=ranks, qualifiers=qualifiers,
        properties=properties, sitelinks=sitelinks, instances_of=instances_of, inner=inner,
        work=work, max_line_bytes=max_line_bytes,
    )  # fmt: skip
    for block in blocks:
        yield from block.records()


def read_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    languages: Sequence[str] | None = ("en",),
    types: Types = "triple",
    ranks: str = "truthy",
    qualifiers: bool = False,
    properties: Sequence[str] | None = None,
    sitelinks: Sequence[str] | None = None,
    instances_of: Sequence[str] = (),
    inner: bool = False,
    work: str | Path | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Block]:
    """What `read` reads, many triples and texts at once."""
    selection = Selection.of(
        languages, ranks, properties, sitelinks, instances_of,
        types=types, qualifiers=qualifiers, inner=inner,
    )  # fmt: skip
    if qualifiers:
        yield from _with_names(
            _selected(Path(path), report, selection, work, max_line_bytes), report
        )
    else:
        yield from _selected(Path(path), report, selection, work, max_line_bytes)


def _selected(
    path: Path, report: DamageReport, selection: Selection, work: str | Path | None, longest: int
) -> Iterator[Block]:
    waits = bool(selection.instances_of) or selection.inner
    if not waits and work is None:
        for blocks, _, _ in _read_from(path, report, selection, longest):
            yield from blocks
        return
    with kept_parts(work, path, repr((selection, longest)), report) as (parts, report_of_parts):
        if not parts.is_finished:
            end = parts.offset
            for blocks, notes, end in _read_from(path, report_of_parts, selection, longest, parts):
                parts.add(blocks, notes, end)
            parts.add((), (), end, is_last=True)
        else:
            parts.restore()
        if waits:
            yield from only_members(parts.blocks(), parts.notes(), selection, report_of_parts)
        else:
            yield from parts.blocks()


def _read_from(
    path: Path, report: DamageReport, selection: Selection, longest: int,
    parts: Parts | None = None,
) -> Iterator[tuple[list[Block], list[TripleBlock], int]]:  # fmt: skip
    """Blocks, notes and the byte up to which they reach; from the end of `parts` on."""
    start = 0 if parts is None else parts.offset
    if documents.is_document(path, report):
        if start == 0:
            yield *_of_document(path, report, selection), path.stat().st_size
        elif parts is not None:
            parts.restore()
        return
    columns = EntityColumns(report, selection)
    make = partial(
        decoder,
        selection.languages,
        qualifiers=selection.qualifiers,
        sitelinks=selection.sitelinks is not None,
    )
    decode, decode_numbered = make(), cache(partial(make, with_numbers=True))
    end = start
    for block in read_blocks(
        path, report, max_line_bytes=longest, block_bytes=0, lines_are_long=True
    ):
        if parts is not None and block.offset < start:  # read before the cut
            parts.restore()
            continue
        for line_no, offset, content, comma in _lines(str(path), block, report, longest):
            if len(content) < _SHORT and bytes(content).strip() + comma in (b"", b"[", b"]"):
                report.n_blank += 1
                continue
            try:
                try:
                    columns.add(decode(content))
                except NumberedError:
                    columns.add(decode_numbered()(content))
            except JSON_FAULTS as error:
                line = bytes(content) + comma
                reason = fault_of(line) or f"not an entity in JSON: {error}"[:200]
                report.reject(str(path), line_no, offset, reason, line)
        end = block.offset + len(block.data)
        if columns.n_rows >= BLOCK_ROWS:
            yield *columns.blocks(), end
    yield *columns.blocks(), end


def _of_document(
    path: Path, report: DamageReport, selection: Selection
) -> tuple[list[Block], list[TripleBlock]]:
    """Blocks and notes of a file that is one JSON value."""
    columns = EntityColumns(report, selection)
    how: Any = {"qualifiers": selection.qualifiers, "sitelinks": selection.sitelinks is not None}
    decode = decoder(selection.languages, **how)
    decode_numbered = decoder(selection.languages, with_numbers=True, **how)
    report.units = "entities"
    for number, raw in documents.entities(path, report):
        try:
            try:
                columns.add(decode(raw))
            except NumberedError:
                columns.add(decode_numbered(raw))
        except JSON_FAULTS as error:
            reason = f"not an entity in JSON: {error}"[:200]
            report.reject(str(path), number, 0, reason, bytes(raw))
    return columns.blocks()


def _lines(
    file: str, block: LineBlock, report: DamageReport, longest: int
) -> Iterator[tuple[int, int, Any, bytes]]:
    """As `checked_lines`, each without the comma behind it, and that.

    Those of a sound block are not copied, and may hold NUL bytes.
    """
    data, ends = block.data, block.ends
    if ends is None or len(data) > longest or fault_of(data, nul_is_text=True):
        for line_no, offset, line in checked_lines(file, block, report, max_line_bytes=longest):
            content = line.removesuffix(b",")
            yield line_no, offset, content, line[len(content) :]
        return
    view, start, last = memoryview(data), 0, len(data)
    for line_no, end in enumerate(ends, block.first_line):
        report.n_lines += 1
        following = end + 1
        if start < end < last and data[end - 1] == _CR:
            end -= 1
        if start < end and data[end - 1] == _COMMA:
            yield line_no, block.offset + start, view[start : end - 1], b","
        else:
            yield line_no, block.offset + start, view[start:end], b""
        start = following


def _with_names(blocks: Iterable[Block], report: DamageReport) -> Iterator[Block]:
    """The same, and texts of P39 also of `p:P39`, `ps:P39` and `pq:P39` where these are used."""
    texts: list[TextBlock] = []
    derived: dict[str, set[str]] = {}
    for block in blocks:
        yield block
        if isinstance(block, TripleBlock):
            for name in block.relations.to_pylist():
                prefix, _, relation = name.rpartition(":")
                if prefix:
                    derived.setdefault(relation, set()).add(name)
        elif block.is_relation:
            texts.append(block)
    names = sorted((relation, name) for relation, names_of in derived.items() for name in names_of)
    for block in texts:
        for relation, name in names:
            places = pc.index_in(block.nodes, pa.array([relation]))
            rows = np.isin(block.node_ids, np.flatnonzero(places.is_valid()))
            if rows.any():
                report.n_further += int(rows.sum())
                yield replace(
                    block, nodes=pa.array([name]), node_ids=np.zeros(rows.sum(), np.int32),
                    kinds=block.kinds[rows], values=block.values.filter(pa.array(rows)),
                    language_ids=block.language_ids[rows],
                )  # fmt: skip
