"""The program that parses one RDF document in a process of its own (`kg_loaders.rdf.documents`).

The document is its standard input, `Task` as JSON its last argument, and frames its standard
output: four bytes of length, then a `Frame` in MessagePack. Little is imported here, for what a
small file waits for is the start of this process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import msgspec
import pyoxigraph as ox

from kg_loaders.rdf.bases import BaseWatch, has_dot_segments
from kg_loaders.rdf.structures import BLANK_START, ON_PROPERTY, is_blank

FRAME_ROWS = 1000
FRAME_BYTES = 1 << 20
TERM_BYTES = 1 << 24
"""pyoxigraph's own limit in Turtle; here the limit of every format."""
TOO_LONG = "a term longer than 16 MiB"

Literal = tuple[str, str]
Row = tuple[str | None, str, str | Literal | None]
"""Subject, predicate and object: an IRI, a blank node as `_:x`, a literal with its language; None
for anything else."""


class Task(msgspec.Struct, frozen=True):
    """What to do; `predicates` asks for one row of each predicate only."""

    format: str
    base_iri: str | None = None
    predicates: bool = False
    memory_bytes: int = 0
    seconds: int = 0
    renew: bool = False


class Fault(msgspec.Struct, frozen=True):
    """Why parsing ended early; line 0 is unknown, `n_line_ends` were read by then."""

    message: str
    line: int
    n_line_ends: int
    base: str = ""  # one that pyoxigraph would resolve wrongly, where it is the reason


class Frame(msgspec.Struct, frozen=True):
    """Some rows; the last frame says so, perhaps with a fault."""

    rows: list[Row] = []
    last: bool = False
    fault: Fault | None = None


class TermTooLongError(Exception):
    """A term that no graph here takes."""


class BaseSeenError(Exception):
    """A base that pyoxigraph resolves wrongly; the message is the base."""


class Stream:
    """Blocks as a file that `pyoxigraph.parse` reads from."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, b""
        self.bases = BaseWatch("turtle")
        self.n_line_ends = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`, b"" at the end."""
        if not self._left:
            self._left = next(self._blocks, b"")
            self.bases.see(self._left)
        end = len(self._left) if size < 0 else size
        data, self._left = self._left[:end], self._left[end:]
        self.n_line_ends += data.count(b"\n")
        return data


def row_of(quad: ox.Quad) -> Row:
    """The row of a statement."""
    value = quad.object
    is_text = type(value) is ox.Literal
    tail = (value.value, value.language or "") if is_text else _name_of(value)
    return _name_of(quad.subject), quad.predicate.value, tail


def _name_of(term: object) -> str | None:
    if type(term) is ox.NamedNode:
        return term.value
    return f"{BLANK_START}{term.value}" if type(term) is ox.BlankNode else None


def oxigraph_rows(stream: Stream, format: str, base_iri: str | None) -> Iterator[Row]:
    """The rows of a document that pyoxigraph reads; `format` is a file extension."""
    known = ox.RdfFormat.from_extension(format)
    parser = ox.parse(stream, known, base_iri=base_iri)  # type: ignore[arg-type]
    is_turtle = format in ("ttl", "trig")
    for quad in parser:
        if is_turtle and stream.bases.found and has_dot_segments(parser.base_iri or ""):
            raise BaseSeenError(parser.base_iri)
        yield row_of(quad)


def rdflib_rows(data: bytes, format: str, base_iri: str | None) -> Iterator[Row]:
    """The rows of a document that rdflib reads, n3 or trix."""
    import rdflib

    graph = rdflib.Graph() if format == "n3" else rdflib.Dataset(default_union=True)
    graph.parse(data=data, format=format, publicID=base_iri)
    return rows_of_graph(graph)


def rows_of_graph(graph: Any) -> Iterator[Row]:
    """The rows of an rdflib graph."""
    from rdflib import BNode, URIRef
    from rdflib import Literal as RdflibLiteral

    def name_of(term: object) -> str | None:
        if isinstance(term, URIRef):
            return str(term)
        return f"{BLANK_START}{term}" if isinstance(term, BNode) else None

    for subject, predicate, value in graph.triples((None, None, None)):
        if isinstance(value, RdflibLiteral):
            yield name_of(subject), str(predicate), (str(value), (value.language or "").lower())
        else:
            yield name_of(subject), str(predicate), name_of(value)


def fault_of(error: Exception, stream: Stream) -> Fault:
    """What pyoxigraph has to say against a document; raises MemoryError when memory is short."""
    if isinstance(error, BaseSeenError):
        return Fault("", 0, stream.n_line_ends, str(error))
    if isinstance(error, SyntaxError):
        return Fault(str(error), error.lineno or 0, stream.n_line_ends)
    if isinstance(error, MemoryError) and "buffer" not in str(error):
        raise error
    return Fault(TOO_LONG, 0, stream.n_line_ends)


def main() -> None:
    """Parse standard input to frames."""
    task = msgspec.json.decode(sys.argv[-1], type=Task)
    renew = _limit(task)
    blocks = iter(lambda: sys.stdin.buffer.read(1 << 18), b"")
    stream, fault = Stream(blocks), None
    try:
        if task.format in ("n3", "trix"):
            rows = rdflib_rows(b"".join(blocks), task.format, task.base_iri)
        else:
            rows = oxigraph_rows(stream, task.format, task.base_iri)
        _send(new_predicates(rows) if task.predicates else rows, sys.stdout.buffer, renew)
    except (TermTooLongError, BaseSeenError, MemoryError, SyntaxError) as error:
        fault = fault_of(error, stream)
    except Exception as error:
        if task.format not in ("n3", "trix"):  # rdflib's parsers declare none, and raise any
            raise
        fault = Fault(f"{type(error).__name__} {error}"[:10_000], 0, 0)
    _write(Frame(last=True, fault=fault), sys.stdout.buffer)


def new_predicates(rows: Iterable[Row]) -> Iterator[Row]:
    """A row of each predicate, and of each property that an OWL restriction is on."""
    known: dict[str, None] = {}
    for subject, predicate, value in rows:
        names = [predicate]
        if predicate == ON_PROPERTY and isinstance(value, str) and subject and is_blank(subject):
            names += [] if is_blank(value) else [value]  # of an OWL restriction
        for name in names:
            if name not in known:
                known[name] = None
                yield None, name, None


def _send(rows: Iterable[Row], sink: BinaryIO, renew: Callable[[], None]) -> None:
    """Write every row before a fault, and then raise it."""
    batch: list[Row] = []
    n_bytes = 0
    try:
        for row in rows:
            tail = row[2]
            size = len(row[1]) + len((tail if isinstance(tail, str) else tail[0]) if tail else "")
            if size > TERM_BYTES:
                raise TermTooLongError
            batch.append(row)
            n_bytes += size
            if len(batch) == FRAME_ROWS or n_bytes > FRAME_BYTES:
                _write(Frame(batch), sink)
                batch, n_bytes = [], 0
                renew()
    finally:
        if batch:
            _write(Frame(batch), sink)


def _write(frame: Frame, sink: BinaryIO) -> None:
    data = msgspec.msgpack.encode(frame)
    sink.write(len(data).to_bytes(4, "big"))
    sink.write(data)
    sink.flush()


def _limit(task: Task) -> Callable[[], None]:
    """Limit this process; what comes back gives a stream its processor time anew."""
    try:
        import resource
    except ImportError:  # no such limits on Windows
        return lambda: None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = task.memory_bytes if hard == resource.RLIM_INFINITY else min(task.memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def renew() -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        seconds = int(used.ru_utime + used.ru_stime) + task.seconds
        soft = seconds if hard == resource.RLIM_INFINITY else min(seconds, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))

    renew()
    return renew if task.renew else lambda: None


if __name__ == "__main__":
    main()
