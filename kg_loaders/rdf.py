"""RDF: N-Triples, N-Quads, Turtle, TriG, RDF/XML and JSON-LD by pyoxigraph; N3 and TriX by rdflib.

What becomes of a statement says `kg_loaders.rdf_records`. To know the predicates, a file is read
twice; `relation_prefixes` says beforehand what is a relation: that reads once, and is needed when
labels and triples stand in different files.

N-Triples and N-Quads go on after a malformed line. The other formats cannot: there the malformed
place is one rejection, which says that the rest of the file was not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyoxigraph as ox

from kg_loaders.damage import DamagePolicy, DamageReport
from kg_loaders.errors import SourceError
from kg_loaders.lines import (
    BOM,
    COMPRESSED,
    MAX_LINE_BYTES,
    _blocks,
    _StreamDamageError,
    read_lines,
)
from kg_loaders.rdf_bases import BaseWatch, require_no_dot_segments
from kg_loaders.rdf_records import TEXT_PREDICATES, LiteralTerm, Statement, Types, to_records
from kg_loaders.rdflib_graph import read_by_rdflib
from kg_loaders.records import Record, TextKind

LINE_FORMATS = {
    "nt": ox.RdfFormat.N_TRIPLES,
    "ntriples": ox.RdfFormat.N_TRIPLES,
    "nq": ox.RdfFormat.N_QUADS,
    "nquads": ox.RdfFormat.N_QUADS,
}
STREAM_FORMATS = {
    "ttl": ox.RdfFormat.TURTLE,
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "rdf": ox.RdfFormat.RDF_XML,
    "owl": ox.RdfFormat.RDF_XML,
    "xml": ox.RdfFormat.RDF_XML,
    "jsonld": ox.RdfFormat.JSON_LD,
}
RDFLIB_FORMATS = {"n3": "n3", "trix": "trix"}
SUFFIXES = (*LINE_FORMATS, *STREAM_FORMATS, *RDFLIB_FORMATS)

_BASES_OF = {ox.RdfFormat.JSON_LD: "json", ox.RdfFormat.RDF_XML: "xml"}
"""What shows a base in the bytes alone; of other formats the parser knows its base."""
CHUNK_LINES = 1024
CHUNK_BYTES = 1024 * 1024
EXCERPT = 4096
LOST = "; the rest of the file was not read"


def read(
    path: str | Path,
    report: DamageReport,
    *,
    format: str | None = None,
    prefixes: Mapping[str, str] | None = None,
    texts: Mapping[str, TextKind] = TEXT_PREDICATES,
    types: Types = "triple",
    languages: Sequence[str] | None = None,
    relation_prefixes: Sequence[str] | None = None,
    base_iri: str | None = None,
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
        types: whether an rdf:type statement is a triple, a `TYPE` text, or both.
        languages: keep texts of these languages (`en` takes `en-gb` too) and those without one.
        relation_prefixes: IRIs that start so are relations; the file is then read once.
        base_iri: what relative IRIs are relative to; without it they are malformed. As a base
            in the file it may not have the segments `.` or `..` (`kg_loaders.rdf_bases`).
        max_line_bytes: limit of a line of N-Triples or N-Quads.
    """
    path = Path(path)
    name = format or format_of(path)
    require_no_dot_segments(path, base_iri or "", "the option base_iri")

    def statements(to: DamageReport) -> Iterator[Statement]:
        if name in LINE_FORMATS:
            return _read_lines(path, to, LINE_FORMATS[name], max_line_bytes)
        if name in STREAM_FORMATS:
            return _read_stream(path, to, STREAM_FORMATS[name], base_iri)
        if name in RDFLIB_FORMATS:
            return read_by_rdflib(path, to, RDFLIB_FORMATS[name], base_iri)
        raise SourceError(f"{path}: no RDF format {name!r}; known: {', '.join(SUFFIXES)}")

    predicates: Iterable[str] = ()
    if relation_prefixes is None:
        aside = DamageReport(DamagePolicy.SKIP, max_kept=0)
        if name in LINE_FORMATS:
            predicates = _predicates_of_lines(path, aside, max_line_bytes)
        else:
            predicates = (statement.predicate for statement in statements(aside))
    report.units = "lines" if name in LINE_FORMATS else "statements"
    yield from to_records(
        predicates,
        statements(report),
        report,
        prefixes=prefixes,
        texts=texts,
        types=types,
        languages=languages,
        relation_prefixes=relation_prefixes,
    )


def format_of(path: Path) -> str:
    """The format that a file name tells, "nt" for `facts.nt.gz`; "" when it has no suffix."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1].removeprefix(".") if suffixes else ""


# ---- pyoxigraph ----------------------------------------------------------------------------------


def _statement(quad: ox.Quad) -> Statement:
    subject, value = quad.subject, quad.object
    head = subject.value if type(subject) is ox.NamedNode else None
    tail: str | LiteralTerm | None = None
    if type(value) is ox.NamedNode:
        tail = value.value
    elif type(value) is ox.Literal:
        tail = LiteralTerm(value.value, value.language or "")
    return Statement(head, quad.predicate.value, tail)


def _read_lines(
    path: Path, report: DamageReport, format: ox.RdfFormat, max_line_bytes: int
) -> Iterator[Statement]:
    """Parse lines a chunk at a time, and one at a time where a chunk is malformed."""
    pending: list[tuple[int, int, bytes]] = []
    n_bytes = 0
    for item in read_lines(path, report, max_line_bytes=max_line_bytes):
        line = item[2].strip()
        if not line:
            report.n_blank += 1
        elif line.startswith(b"#") and b"\r" not in line:  # N-Triples' lines end at CR too
            report.n_comment += 1
        else:
            if len(pending) == CHUNK_LINES or n_bytes + len(line) > CHUNK_BYTES:
                yield from _parse_chunk(path, report, format, pending)
                pending, n_bytes = [], 0
            pending.append(item)
            n_bytes += len(line)
    yield from _parse_chunk(path, report, format, pending)


def _parse_chunk(
    path: Path, report: DamageReport, format: ox.RdfFormat, lines: list[tuple[int, int, bytes]]
) -> Iterator[Statement]:
    data = b"\n".join(line for _, _, line in lines)
    quads, reason = _parse(data, format)
    if not reason and len(quads) == len(lines) and b"\r" not in data:
        yield from map(_statement, quads)
        return
    for line_no, offset, line in lines:
        if len(lines) > 1:
            quads, reason = _parse(line, format)
        if not reason and not quads:
            report.n_comment += 1
        elif reason or len(quads) > 1:
            reason = reason or "more than one statement in a line"
            report.reject(str(path), line_no, offset, reason, line)
        else:
            yield _statement(quads[0])


def _parse(data: bytes, format: ox.RdfFormat) -> tuple[list[ox.Quad], str]:
    try:
        return list(ox.parse(data, format)), ""
    except (SyntaxError, MemoryError) as error:
        return [], _reason(error)


_PREDICATE = re.compile(rb"[ \t]*(?:<[^>]*>|_:[^ \t<]+)[ \t]*<([^>]*)>")


def _predicates_of_lines(path: Path, aside: DamageReport, max_line_bytes: int) -> Iterator[str]:
    """The predicates of N-Triples or N-Quads, found without parsing every line."""
    found: dict[bytes, None] = {}
    for _, _, line in read_lines(path, aside, max_line_bytes=max_line_bytes):
        match = _PREDICATE.match(line)
        if match:
            found[match[1]] = None
    for predicate in found:
        quads, _ = _parse(b"<a:a> <" + predicate + b"> <a:a> .", ox.RdfFormat.N_TRIPLES)
        yield from (quad.predicate.value for quad in quads)


_PLACE = re.compile(r"^Parser error at line \d+ [^:]*: | \(line \d+\)$")
_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\b[0-9A-F]{4,8}\b")


def _reason(error: Exception) -> str:
    """The message without the data in it, so that there are few distinct reasons."""
    if isinstance(error, MemoryError):
        if "buffer" not in str(error):
            raise error
        return "a term longer than 16 MiB"
    message = " ".join(_PLACE.sub("", str(error)).split())
    return _VARIABLE.sub("…", message)[:200]


class _Stream:
    """What pyoxigraph reads from; keeps the reason when the compressed data break off."""

    def __init__(self, path: Path, bases: BaseWatch) -> None:
        self._blocks, self._bases = _blocks(path), bases
        self._left = b""
        self._at_start = True
        self.damage = ""
        self.n_line_ends = 0

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            self._left = self._next()
        end = len(self._left) if size < 0 else size
        data, self._left = self._left[:end], self._left[end:]
        self.n_line_ends += data.count(b"\n")
        return data

    def _next(self) -> bytes:
        try:
            block = next(self._blocks, b"")
        except _StreamDamageError as damage:
            self.damage = str(damage)
            return b""
        if self._at_start:
            self._at_start = False
            block = block.removeprefix(BOM) or self._next()
        self._bases.see(block)
        return block


def _read_stream(
    path: Path, report: DamageReport, format: ox.RdfFormat, base_iri: str | None
) -> Iterator[Statement]:
    bases = BaseWatch(_BASES_OF.get(format, "turtle"))
    stream = _Stream(path, bases)
    reason, line_no = "", 0
    try:
        parser = ox.parse(stream, format, base_iri=base_iri)  # type: ignore[arg-type]
        for quad in parser:
            if bases.found:
                _require_bases(path, bases.found, format, parser)
            report.n_lines += 1
            yield _statement(quad)
    except (SyntaxError, MemoryError) as error:
        reason = _reason(error)
        line_no = getattr(error, "lineno", None) or 0
        if not line_no:
            reason += " (at this line or before)"
    if stream.damage:
        if report.policy is DamagePolicy.STOP:
            raise SourceError(f"{path}: {stream.damage}; fetch the file again")
        reason, line_no = stream.damage, 0
    if reason:
        line_no = line_no or stream.n_line_ends + 1
        report.n_lines += 1
        report.reject(str(path), line_no, *_locate(path, line_no, reason + LOST))


def _require_bases(path: Path, base: str, format: ox.RdfFormat, parser: ox.QuadParser) -> None:
    """Raise `SourceError` for a base that is resolved wrongly; what only looks like one is none."""
    if format not in _BASES_OF:
        base = parser.base_iri or ""
    require_no_dot_segments(path, base, "the base")


def _locate(path: Path, line_no: int, reason: str) -> tuple[int, str, bytes]:
    """Offset of a line, the reason handed through, and the start of the line."""
    n_left, offset, start = line_no - 1, 0, b""
    try:
        for block in _blocks(path):
            n_ends = block.count(b"\n")
            if n_left > n_ends or (n_left == n_ends and block.endswith(b"\n")):
                n_left -= n_ends
                offset += len(block)
                continue
            at = 0
            for _ in range(n_left):
                at = block.index(b"\n", at) + 1
            n_left, offset, start = 0, offset + at, block[at:]
            break
    except _StreamDamageError:
        start = b""  # the place is behind the end of what can be read
    return offset, reason, start.split(b"\n", 1)[0][:EXCERPT]
