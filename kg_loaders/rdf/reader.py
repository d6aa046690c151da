"""RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD by pyoxigraph; N3 and TriX by rdflib.

`kg_loaders.rdf.records` says what a statement becomes. To know the predicates, a file is read
twice; `relation_prefixes` says beforehand what is a relation: that reads once, and is needed when
labels and triples stand in different files.

N-Triples and N-Quads go on after a malformed line. The other formats cannot: there the malformed
place is one rejection, which says that the rest of the file was not read. They are parsed in a
process of their own, within the report's `ReaderBudget` (`kg_loaders.rdf.documents`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from kg_loaders.budget import ReaderBudget
from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.rdf.bases import DEFAULT_BASE, require_base, require_no_dot_segments
from kg_loaders.rdf.block_records import BlockRecords, FoundRecords, statements_of
from kg_loaders.rdf.contexts import contexts_of
from kg_loaders.rdf.document_parser import RECOVERING, TOO_LONG, Fault, Row, row_of
from kg_loaders.rdf.documents import Document
from kg_loaders.rdf.line_blocks import LineSplitter
from kg_loaders.rdf.names import TEXT_PREDICATES, text_predicates
from kg_loaders.rdf.records import Types, to_records
from kg_loaders.rdf.structures import BLANK, ON_PROPERTY, LiteralTerm, Statement
from kg_loaders.rdf.turtle_tags import with_normal_tags
from kg_loaders.reading.blocks import Block
from kg_loaders.reading.lines import (
    MAX_LINE_BYTES,
    Span,
    checked_lines,
    read_blocks,
    read_lines,
)
from kg_loaders.reading.unpacking import data_name
from kg_loaders.reading.workers import Workers
from kg_loaders.records import Record, TextKind

LINE_FORMATS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "nquads": ox.RdfFormat.N_QUADS,
}
DOCUMENT_FORMATS = {  # and the names by which their parser knows them
    "ttl": "ttl", "turtle": "ttl", "trig": "trig", "rdf": "rdf", "owl": "rdf", "xml": "rdf",
    "jsonld": "jsonld", "n3": "n3", "trix": "trix",
}  # fmt: skip
SUFFIXES = (*LINE_FORMATS, *DOCUMENT_FORMATS)

Names = Mapping[str, str | TextKind | None] | Iterable[str]
Contexts = Mapping[str, str | Path] | Iterable[str]
Line = tuple[int, int, bytes]
"""Its number, the offset of its first byte, and its bytes."""
CHUNK_LINES = 1024
CHUNK_BYTES = 1024 * 1024
CHUNK_STATEMENTS = 50_000
EXCERPT = 4096
LOST = "; the rest of the file was not read"
NOTHING = "; nothing of the file was read"
STATEMENT_LOST = "; what follows up to the next full stop was not read"
LEFT_OUT = "relative or malformed IRI, which JSON-LD leaves out"
BEFORE = " (at this line or before)"


def read(
    path: str | Path,
    report: DamageReport,
    *,
    format: str | None = None,
    prefixes: Mapping[str, str] | None = None,
    texts: Mapping[str, TextKind] = TEXT_PREDICATES,
    names: Names = (),
    types: Types = "triple",
    languages: Sequence[str] | None = None,
    relation_prefixes: Sequence[str] | None = None,
    base_iri: str | None = None,
    contexts: Contexts = (),
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Record]:
    """Read an RDF file, plain or compressed; see the module for what becomes what.

    Units are the lines of N-Triples and N-Quads, and the statements of other formats. What a
    statement gives beside its first record (`types="both"`, texts of an IRI that is both relation
    and entity) is counted in `report.n_further`.

    Args:
        format: one of `SUFFIXES`, when the file name does not tell.
        prefixes: starts of IRIs and what stands in their place, the longest first, as in
            `{"http://www.wikidata.org/entity/": ""}`; default: IRIs in full.
        texts: the predicates whose literals are texts.
        names: further ones, `{IRI: "label" | "alias" | "description"}` or texts `IRI=label`; "none"
            takes one of `texts` out.
        types: whether an rdf:type statement is a triple, a `TYPE` text, or both.
        languages: keep texts of these languages (`en` takes `en-gb` too) and those without one.
        relation_prefixes: IRIs that start so are relations; the file is then read once.
        base_iri: what relative IRIs are relative to where the file names no base; by default
            `kg_loaders.rdf.bases.DEFAULT_BASE`, so that the same bytes are the same graph wherever
            they lie. As a base in the file it may not have the segments `.` or `..`.
        contexts: of JSON-LD, the files of contexts that lie elsewhere, `{address: file}` or texts
            `URL=FILE`; "", or a text `FILE`, is the file of all others. Nothing is fetched.
        max_line_bytes: limit of a line of N-Triples or N-Quads.
    """
    path = Path(path)
    name = format or format_of(path)
    statements = read_statements(
        path, report, format=name, base_iri=base_iri, contexts=contexts,
        max_line_bytes=max_line_bytes,
    )  # fmt: skip
    predicates: Iterable[str] = ()
    if relation_prefixes is None and name in LINE_FORMATS:
        predicates = _predicates_of_lines(path, report.budget, max_line_bytes)
    elif relation_prefixes is None:
        document = _document(path, report, name, base_iri, contexts)
        predicates = (row[1] for row in document.rows(predicates=True))
    yield from to_records(
        predicates,
        statements,
        report,
        prefixes=prefixes,
        texts=text_predicates(names, texts),
        types=types,
        languages=languages,
        relation_prefixes=relation_prefixes,
    )


def read_statements(
    path: str | Path,
    report: DamageReport,
    *,
    format: str | None = None,
    base_iri: str | None = None,
    contexts: Contexts = (),
    max_line_bytes: int = MAX_LINE_BYTES,
) -> Iterator[Statement]:
    """Every statement of an RDF file, in the file's order and counted; options as of `read`."""
    path = Path(path)
    name = format or format_of(path)
    _require_options(path, base_iri)
    if name not in SUFFIXES:
        raise SourceError(f"{path}: no RDF format {name!r}; known: {', '.join(SUFFIXES)}")
    report.units = "lines" if name in LINE_FORMATS else "statements"
    if name in LINE_FORMATS:
        lines = read_lines(path, report, max_line_bytes=max_line_bytes)
        return _read_lines(path, report, LINE_FORMATS[name], lines)
    document = _document(path, report, name, base_iri, contexts)
    return _read_document(document, report, notes_base=base_iri is None)


def _require_options(path: Path, base_iri: str | None) -> None:
    if base_iri is not None:
        require_no_dot_segments(path, require_base(base_iri), "the option base_iri")


def _document(
    path: Path, report: DamageReport, name: str, base_iri: str | None, contexts: Contexts
) -> Document:
    return Document(
        path, report.budget, DOCUMENT_FORMATS[name], base_iri or DEFAULT_BASE, contexts_of(contexts)
    )


def read_in_blocks(
    path: str | Path,
    report: DamageReport,
    *,
    format: str | None = None,
    texts: Mapping[str, TextKind] = TEXT_PREDICATES,
    names: Names = (),
    base_iri: str | None = None,
    contexts: Contexts = (),
    max_line_bytes: int = MAX_LINE_BYTES,
    workers: Workers | None = None,
    **options: Any,
) -> Iterator[Record | Block]:
    """What `read` reads, with the same options, in blocks and in one pass; texts come last.

    Only N-Triples and N-Quads are read by `workers`.
    """
    path = Path(path)
    name = format or format_of(path)
    options["texts"] = text_predicates(names, texts)
    records = BlockRecords(report, **options)
    if name not in LINE_FORMATS:
        if workers is not None:
            workers.leave_out(path, report)
        statements = read_statements(
            path, report, format=name, base_iri=base_iri, contexts=contexts
        )
        while rows := list(islice(statements, CHUNK_STATEMENTS)):
            yield from records.take(records.records_in(statements_of(rows, report)))
        yield from records.rest()
        return
    _require_options(path, base_iri)
    report.units = "lines"
    reader = partial(_read_span, name=name, max_line_bytes=max_line_bytes, **options)
    for block_records in (workers or Workers()).read(reader, path, report):
        yield from records.take(block_records)
    yield from records.rest()


def _read_span(
    path: Path,
    report: DamageReport,
    span: Span,
    *,
    name: str,
    max_line_bytes: int,
    **options: Any,
) -> Iterator[FoundRecords]:
    splitter = LineSplitter(LINE_FORMATS[name], max_line_bytes)
    records = BlockRecords(report, **options)
    predicates: dict[bytes, None] = {}
    for block in read_blocks(path, report, max_line_bytes=max_line_bytes, span=span):
        statements, odd = splitter.split(block)
        if statements is not None:
            report.n_lines += len(statements)
            yield records.records_in(statements)
        if odd.any():
            lines = checked_lines(
                str(path), block, report, chosen=odd, max_line_bytes=max_line_bytes
            )
            watched = _watch_predicates(lines, predicates)
            rows = _read_lines(path, report, LINE_FORMATS[name], watched)
            yield records.records_in(statements_of(rows, report))
    yield FoundRecords((), tuple(_parsed(predicates)), None)


def format_of(path: Path) -> str:
    """The format that a file name suggests, "nt" for `facts.nt.gz`; "" when it has no suffix."""
    return Path(data_name(path)).suffix.lower().removeprefix(".")


# ---- pyoxigraph ----------------------------------------------------------------------------------


def _statement(row: Row) -> Statement:
    head, predicate, tail = row
    return Statement(head, predicate, LiteralTerm(*tail) if isinstance(tail, tuple) else tail)


def _read_lines(
    path: Path, report: DamageReport, format: ox.RdfFormat, lines: Iterable[Line]
) -> Iterator[Statement]:
    """Parse lines a chunk at a time, and one at a time where a chunk is malformed."""
    pending: list[Line] = []
    n_bytes = 0
    for item in lines:
        line = item[2].strip()
        if not line:
            report.n_blank += 1
        elif line.startswith(b"#") and b"\r" not in line:  # N-Triples' lines end at CR too
            report.n_comment += 1
        elif b"<<" in line and _STRING.sub(b"", line).count(b"<<") > report.budget.depth:
            reason = f"nested more than {report.budget.depth} levels deep"  # the parser recurses
            report.reject(str(path), item[0], item[1], reason, item[2])
        else:
            if len(pending) == CHUNK_LINES or n_bytes + len(line) > CHUNK_BYTES:
                yield from _parse_chunk(path, report, format, pending)
                pending, n_bytes = [], 0
            pending.append(item)
            n_bytes += len(line)
    yield from _parse_chunk(path, report, format, pending)


def _parse_chunk(
    path: Path, report: DamageReport, format: ox.RdfFormat, lines: list[Line]
) -> Iterator[Statement]:
    data = b"\n".join(line for _, _, line in lines)
    quads, reason = _parse(data, format)
    if not reason and len(quads) == len(lines) and b"\r" not in data:
        yield from map(_statement, map(row_of, quads))
        return
    for line_no, offset, line in lines:
        if len(lines) > 1:
            quads, reason = _parse(line, format)
        if reason and (normal := b"".join(with_normal_tags([line]))) != line:
            quads, reason = _parse(normal, format)
        if reason and (is_quoting := _is_about_a_statement(line, format)) is not None:
            quads, reason = [], ""
            if is_quoting:
                report.skip(BLANK)
                continue
        if not reason and not quads:
            report.n_comment += 1
        elif reason or (len(quads) > 1 and b"\r" not in line):
            reason = reason or "more than one statement in a line"
            report.reject(str(path), line_no, offset, reason, line)
        else:  # several, where lines end at CR as the format says they may
            report.n_further += len(quads) - 1
            yield from map(_statement, map(row_of, quads))


def _parse(data: bytes, format: ox.RdfFormat) -> tuple[list[ox.Quad], str]:
    try:
        return list(ox.parse(data, format)), ""
    except (SyntaxError, MemoryError) as error:
        return [], _reason(error)


def _is_about_a_statement(line: bytes, format: ox.RdfFormat) -> bool | None:
    """Whether a line is sound when its quoted triple is a node: True; None for another line.

    RDF-star writes `<< s p o >>` in lines too, as YAGO does; RDF 1.2 has no such subjects. False
    for the line that names the version of RDF.
    """
    if _VERSION.fullmatch(line):
        return False
    while match := _QUOTED.search(line):
        if _parse(match[1] + b" .", format)[1]:
            return None
        line = line[: match.start()] + b"_:quoted" + line[match.end() :]
        if b"<<" not in _STRING.sub(b"", line):
            return None if _parse(line, format)[1] else True
    return None


_VERSION = re.compile(rb"""\s*VERSION\s+["'][0-9.a-z-]+["']\s*""")
_QUOTED = re.compile(rb'<<[ \t]*((?:"(?:[^"\\]|\\.)*"|(?!<<|>>[ \t])[^"])+?)[ \t]*>>(?=[ \t])')
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
_ON_PROPERTY = ON_PROPERTY.encode()
_BLANK_SUBJECT = re.compile(
    rb"[ \t]*(?:_:|<[A-Za-z][A-Za-z0-9+.-]*://[^/?#>]*/\.well-known/genid/)"
)
_OBJECT = re.compile(rb"[ \t]*<([^>]*)>")
_PREDICATE = re.compile(rb"[ \t]*(?:<[^>]*>|_:[^ \t<]+)[ \t]*<([^>]*)>")


def _predicates_of_lines(path: Path, budget: ReaderBudget, max_line_bytes: int) -> Iterator[str]:
    """The predicates of N-Triples or N-Quads, found without parsing every line."""
    aside = DamageReport(DamagePolicy.SKIP, max_kept=0, budget=budget)
    predicates: dict[bytes, None] = {}
    for _ in _watch_predicates(read_lines(path, aside, max_line_bytes=max_line_bytes), predicates):
        pass
    return _parsed(predicates)


def _watch_predicates(lines: Iterable[Line], predicates: dict[bytes, None]) -> Iterator[Line]:
    """The same lines; what looks like their predicate goes into `predicates`."""
    for line in lines:
        match = _PREDICATE.match(line[2])
        if match:
            predicates[match[1]] = None
            if match[1] == _ON_PROPERTY and _BLANK_SUBJECT.match(line[2]):
                value = _OBJECT.match(line[2], match.end())
                if value:
                    predicates[value[1]] = None
        yield line


def _parsed(predicates: Iterable[bytes]) -> Iterator[str]:
    for predicate in predicates:
        quads, _ = _parse(b"<a:a> <" + predicate + b"> <a:a> .", ox.RdfFormat.N_TRIPLES)
        yield from (quad.predicate.value for quad in quads)


_POSITION = re.compile(r"^Parser error at line \d+ [^:]*: | \(line \d+\)$")
_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\b[0-9A-F]{4,8}\b")


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        if "buffer" not in str(error):
            raise error
        return TOO_LONG
    return _without_data(str(error))


def _without_data(message: str) -> str:
    """The message without the data in it, so that there are few distinct reasons."""
    return _VARIABLE.sub("…", " ".join(_POSITION.sub("", message).split()))[:200]


# ---- documents -----------------------------------------------------------------------------------
def _read_document(
    document: Document, report: DamageReport, *, notes_base: bool
) -> Iterator[Statement]:
    faults = _DocumentFaults(document, report)
    for row in document.rows():
        report.n_lines += 1
        if not row[1]:
            faults.take(row)
            continue
        if notes_base and _is_relative(row):
            notes_base = False
            report.notes.append(
                f"relative IRIs of {document.path} are relative to {DEFAULT_BASE}; give the file's "
                "own base with --base IRI (in Python base_iri)"
            )
        yield _statement(row)
    if document.n_left_out:
        report.n_lines += document.n_left_out
        report.skip(LEFT_OUT, document.n_left_out)
    fault, by_rdflib = document.fault, document.format in ("n3", "trix")
    if not (fault or document.damage):
        return
    if document.damage and report.policy is DamagePolicy.STOP:
        raise SourceError(f"{document.path}: {document.damage}; fetch the file again")
    line_no = fault.line if fault and not document.damage else 0
    reason = document.damage or _reason_of(fault, by_rdflib)
    line_no = line_no or (1 if by_rdflib else fault.n_line_ends + 1 if fault else 1)
    report.n_lines += 1
    faults.reject(line_no, reason + (NOTHING if by_rdflib else LOST))


def _is_relative(row: Row) -> bool:
    return any(isinstance(term, str) and term.startswith(DEFAULT_BASE) for term in row)


def _reason_of(fault: Fault | None, by_rdflib: bool) -> str:
    if fault is None:
        return ""
    if by_rdflib:
        return " ".join(fault.message.split())[:200]
    return _without_data(fault.message) + ("" if fault.line else BEFORE)


class _DocumentFaults:
    """Rejects malformed statements of a document with their lines, which are met in order."""

    def __init__(self, document: Document, report: DamageReport) -> None:
        self._document, self._report = document, report
        self._lines: Iterator[tuple[int, bytes]] = iter(())
        self._number, self._line = 0, (0, b"")

    def take(self, row: Row) -> None:
        """Reject a malformed statement."""
        line, _, value = row
        reason = _without_data(value[0] if isinstance(value, tuple) else "")
        if self._document.format in RECOVERING:
            self.reject(int(line or 1), reason + STATEMENT_LOST)
        else:
            self.reject(int(line or 1), reason + BEFORE)

    def reject(self, line_no: int, reason: str) -> None:
        """Reject what stands at a line."""
        if line_no < self._number or not self._number:
            self._lines, self._number = _lines_of(self._document), 0
        while self._number < line_no:
            self._line = next(self._lines, (self._line[0] + len(self._line[1]), b""))
            self._number += 1
        offset, line = self._line
        start = line.split(b"\n", 1)[0][:EXCERPT]
        self._report.reject(str(self._document.path), line_no, offset, reason, start)


def _lines_of(document: Document) -> Iterator[tuple[int, bytes]]:
    """The offset of each line, and the line; of a long one its start."""
    offset, start, n_bytes = 0, b"", 0
    for block in document.blocks():
        *ended, rest = block.split(b"\n")
        for line in ended:
            n_bytes += len(line) + 1
            yield offset, (start + line)[:EXCERPT] + b"\n"
            offset, start, n_bytes = offset + n_bytes, b"", 0
        start, n_bytes = (start + rest)[:EXCERPT], n_bytes + len(rest)
    if n_bytes:
        yield offset, start
