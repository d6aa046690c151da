"""The program that parses one RDF document in a process of its own (`kg_loaders.rdf.documents`).

The document is its standard input, `Task` as JSON its last argument, and frames its standard
output: four bytes of length, then a `Frame` in MessagePack. Little is imported here, for what a
small file waits for is the start of this process.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit, uses_relative

import msgspec
import pyoxigraph as ox

from kg_loaders.rdf.bases import BaseWatch, has_dot_segments
from kg_loaders.rdf.contexts import ContextError
from kg_loaders.rdf.nesting import XML_TOKEN
from kg_loaders.rdf.structures import BLANK_START, ON_PROPERTY, is_blank
from kg_loaders.rdf.turtle_tags import BAD_TAG, with_normal_tags
from kg_loaders.reading.languages import language_tag

FRAME_ROWS = 1000
FRAME_BYTES = 1 << 20
TERM_BYTES = 1 << 24
"""pyoxigraph's own limit in Turtle; here the limit of every format."""
TOO_LONG = "a term longer than 16 MiB"

Literal = tuple[str, str]
Row = tuple[str | None, str, str | Literal | None]
"""Subject, predicate and object: an IRI, a blank node as `_:x`, a literal with its language; None
for anything else. Without a predicate: a statement that is malformed, as `malformed` makes it."""
LENIENT = ("rdf",)
"""Formats whose parser would end at a malformed IRI or language: they are parsed without such
checks, which are made here."""
RECOVERING = ("ttl", "trig")
"""Formats whose parser goes on behind the end of a malformed statement."""
MALFORMED_TAG = " "
"""The language of a literal whose tag is malformed."""
MOST_FAULTS = 100
"""Malformed statements one after the other, from which on a document is none."""
REMOTE = "LoadDocumentCallback"


class Task(msgspec.Struct, frozen=True):
    """What to do; `predicates` asks for one row of each predicate only."""

    format: str
    base_iri: str | None = None
    predicates: bool = False
    memory_bytes: int = 0
    seconds: int = 0
    renew: bool = False
    contexts: dict[str, str] = {}
    context_bytes: int = 0


class Fault(msgspec.Struct, frozen=True):
    """Why parsing ended early; line 0 is unknown, `n_line_ends` were read by then."""

    message: str
    line: int
    n_line_ends: int
    base: str = ""  # one that pyoxigraph would resolve wrongly, where it is the reason
    contexts: list[str] = []  # addresses of contexts that are not at hand, where they are it
    is_of_context: bool = False  # whether a file with a context is to blame


class Frame(msgspec.Struct, frozen=True):
    """Some rows; the last frame says so, perhaps with a fault.

    `n_left_out`: the statements that JSON-LD leaves out for an IRI that is relative or malformed.
    """

    rows: list[Row] = []
    last: bool = False
    n_left_out: int = 0
    fault: Fault | None = None


class TermTooLongError(Exception):
    """A term that no graph here takes."""


class BaseSeenError(Exception):
    """A base that pyoxigraph resolves wrongly; the message is the base."""


class Stream:
    """Blocks as a file that `pyoxigraph.parse` reads from; those of Turtle with normal tags."""

    def __init__(self, blocks: Iterator[bytes], format: str) -> None:
        self._blocks = with_normal_tags(blocks) if format in RECOVERING else blocks
        self._left = b""
        self.bases = BaseWatch("turtle")
        self.n_line_ends = 0
        self.last_line = 1  # that is not blank, of those read
        self.is_at_end = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`, b"" at the end."""
        if not self._left:
            self._left = next(self._blocks, b"")
            self.is_at_end = not self._left
            self.bases.see(self._left)
        end = len(self._left) if size < 0 else size
        data, self._left = self._left[:end], self._left[end:]
        if text := data.rstrip():
            self.last_line = self.n_line_ends + text.count(b"\n") + 1
        self.n_line_ends += data.count(b"\n")
        return data


def row_of(quad: ox.Quad) -> Row:
    """The row of a statement."""
    value = quad.object
    if isinstance(value, ox.Literal):
        language = value.language or ""
        tail = value.value, MALFORMED_TAG if language == BAD_TAG else language
        return _name_of(quad.subject), quad.predicate.value, tail
    return _name_of(quad.subject), quad.predicate.value, _name_of(value)


def _name_of(term: object) -> str | None:
    if type(term) is ox.NamedNode:
        return term.value
    return f"{BLANK_START}{term.value}" if type(term) is ox.BlankNode else None


def oxigraph_rows(stream: Stream, format: str, base_iri: str | None) -> Iterator[Row]:
    """The rows of a document that pyoxigraph reads; `format` is a file extension."""
    known = ox.RdfFormat.from_extension(format)
    is_lenient = format in LENIENT
    parser = ox.parse(stream, known, base_iri=base_iri, lenient=is_lenient)  # type: ignore[arg-type]
    n_faults = 0  # since the last statement
    while True:
        try:
            quad = next(parser, None)
        except SyntaxError as error:
            n_faults += 1
            is_last = stream.is_at_end and (error.lineno or 0) >= stream.last_line
            if format not in RECOVERING or not error.lineno or is_last or n_faults > MOST_FAULTS:
                raise  # a document that is cut ends in half a statement, which the parser gives
            yield malformed(str(error), error.lineno)
            continue
        if quad is None:
            return
        n_faults = 0
        if format in RECOVERING and stream.bases.base and has_dot_segments(parser.base_iri or ""):
            raise BaseSeenError(parser.base_iri)
        reason = _fault_of_iris(quad) if is_lenient else ""
        yield malformed(reason, stream.n_line_ends + 1) if reason else row_of(quad)


def malformed(reason: str, line: int) -> Row:
    """The row of a statement that is malformed, at this line or before it."""
    return str(line), "", (reason, "")


def _fault_of_iris(quad: ox.Quad) -> str:
    """Why an IRI of a statement is none, or ""."""
    for term in (quad.subject, quad.predicate, quad.object):
        if type(term) is ox.NamedNode:
            try:
                ox.NamedNode(term.value)
            except ValueError as error:
                return str(error)
    return ""


def _resolved(base: str, reference: str) -> str:
    """Return a reference of N3 resolved against a base, as RFC 3986 says.

    >>> _resolved("http://a/b/c", "./../g"), _resolved("ex://a/b/c", "../g")
    ('http://a/g', 'ex://a/g')
    >>> _resolved("urn:x", "#f"), _resolved("urn:x", "ex://a")
    ('urn:x#f', 'ex://a')
    >>> _resolved("http://a/b", "http://c/d#"), _resolved("http://a/b", "e?")
    ('http://c/d#', 'http://a/e?')
    """
    scheme, _, rest = base.partition(":")
    if scheme in uses_relative or urlsplit(reference).scheme:
        return _with_ending(urljoin(base, reference), reference)
    if not rest.startswith("//"):  # opaque: it has no path
        return base.partition("#")[0] + reference
    joined = urljoin(f"http:{rest}", reference).replace("http", scheme, 1)
    return _with_ending(joined, reference)


def _with_ending(joined: str, reference: str) -> str:
    """Return `joined` with the empty fragment or query of `reference`, which urljoin drops."""
    ending = reference[-1:]
    return joined + ending if ending in ("#", "?") and not joined.endswith(ending) else joined


def rdflib_rows(data: bytes, format: str, base_iri: str | None) -> Iterator[Row]:
    """The rows of a document that rdflib reads, n3 or trix."""
    import rdflib

    if format == "n3":
        from rdflib.plugins.parsers import notation3

        notation3.join = _resolved  # rdflib's own leaves dots in a path, and loses a name before ?
        graph, data = rdflib.Graph(), b"".join(with_normal_tags([data]))
    else:
        graph, data = rdflib.Dataset(default_union=True), _with_tags(data)
    rdflib.NORMALIZE_LITERALS = False  # "01" is not "1"
    graph.parse(data=data, format=format, publicID=base_iri)
    for subject, name, tail in rows_of_graph(graph):
        head, predicate = _absolute(subject, base_iri), _absolute(name, base_iri) or name
        if isinstance(tail, tuple):
            language = MALFORMED_TAG if tail[1] == BAD_TAG else tail[1]
            yield head, predicate, (tail[0], language)
        else:
            yield head, predicate, _absolute(tail, base_iri)


_TAGGED = re.compile(rb"""(\bxml:lang\s*=\s*)(?:"([^"]*)"|'([^']*)')""")


def _with_tags(data: bytes) -> bytes:
    """The XML with language tags that rdflib takes: it would end at another."""

    def tagged(match: re.Match[bytes]) -> bytes:
        tag = language_tag((match[2] or match[3] or b"").decode("utf-8", "replace"))
        return match[1] + b'"' + (BAD_TAG if tag is None else tag).encode() + b'"'

    return XML_TOKEN.sub(
        lambda token: _TAGGED.sub(tagged, token[0]) if token[2] else token[0], data
    )


def _absolute(term: str | None, base_iri: str | None) -> str | None:
    """The IRI that a relative one is; TriX gives these as they are."""
    if term is None or base_iri is None or is_blank(term) or _SCHEME.match(term):
        return term
    return urljoin(base_iri, term)


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def rows_of_graph(graph: Any) -> Iterator[Row]:
    """The rows of an rdflib graph; of a dataset those of all its graphs, one after the other."""
    from rdflib import BNode, URIRef
    from rdflib import Literal as RdflibLiteral

    def name_of(term: object) -> str | None:
        if isinstance(term, URIRef):
            return str(term)
        return f"{BLANK_START}{term}" if isinstance(term, BNode) else None

    statements = graph.quads() if hasattr(graph, "quads") else graph.triples((None, None, None))
    for subject, predicate, value, *_ in statements:
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
    stream, fault, n_left_out = Stream(blocks, task.format), None, 0
    try:
        if task.format in ("n3", "trix"):
            rows = rdflib_rows(b"".join(blocks), task.format, task.base_iri)
        else:
            if task.format == "jsonld":
                stream = Stream(_json_blocks(task), task.format)
            rows = oxigraph_rows(stream, task.format, task.base_iri)
        n = _send(new_predicates(rows) if task.predicates else rows, sys.stdout.buffer, renew)
        if task.format == "jsonld" and not task.predicates:
            n_left_out = _n_in_all(task) - n
    except (TermTooLongError, BaseSeenError, MemoryError, SyntaxError) as error:
        fault = fault_of(error, stream)
        if task.format == "jsonld" and REMOTE in fault.message:
            fault = Fault(fault.message, 0, 0, contexts=_missing_contexts(task))
    except ContextError as error:
        fault = Fault(str(error), 0, 0, is_of_context=True)
    except ImportError:  # a library of ours is missing: no fault of the document
        raise
    except Exception as error:
        if task.format not in ("n3", "trix"):  # rdflib's parsers declare none, and raise any
            raise
        fault = Fault(f"{type(error).__name__} {error}"[:10_000], 0, 0)
    _write(Frame(last=True, fault=fault, n_left_out=n_left_out), sys.stdout.buffer)


_NEXT_ROOT = re.compile(rb"\}(\s*\n\s*)\{")
"""Where a JSON object ends and another begins: in no JSON document, but in one a line."""
_LANGUAGE = re.compile(rb'("@language"\s*:\s*)"((?:[^"\\]|\\.)*)"')


def _json_blocks(task: Task) -> Iterator[bytes]:
    """The document with the contexts that are at hand, and with tags that its parser takes."""
    sys.stdin.seek(0)
    if task.contexts:
        yield _with_tags_of_json(_with_contexts(_as_one(sys.stdin.buffer.read()), task))
        return
    with contextlib.suppress(ValueError), mmap.mmap(0, 0, access=mmap.ACCESS_READ) as data:
        is_odd = any(_tag_of_json(match) != match[0] for match in _LANGUAGE.finditer(data))
        if is_odd or _NEXT_ROOT.search(data):
            yield _with_tags_of_json(_as_one(data[:]))
            return
    yield from iter(lambda: sys.stdin.buffer.read(1 << 18), b"")


def _as_one(data: bytes) -> bytes:
    """Documents of JSON-LD one after the other, as NDJSON-LD has one a line, as one array."""
    ended = _NEXT_ROOT.search(data)
    if ended is None:
        return data
    try:
        json.loads(data[: ended.start() + 1])
    except ValueError:
        return data  # a comma is missing: the parser names the place
    return b"[" + _NEXT_ROOT.sub(rb"},\1{", data) + b"]"


def _with_tags_of_json(data: bytes) -> bytes:
    return _LANGUAGE.sub(_tag_of_json, data)


def _tag_of_json(match: re.Match[bytes]) -> bytes:
    """The setting of a language, normal; the parser would drop what has a malformed one."""
    written = match[2].decode("utf-8", "replace")
    tag = language_tag(written)
    if tag == written.lower():
        return match[0]
    return match[1] + b'"' + (BAD_TAG if tag is None else tag).encode() + b'"'


def _n_in_all(task: Task) -> int:
    """The statements of a document with those that have no absolute IRI."""
    stream = Stream(_json_blocks(task), task.format)
    format = ox.RdfFormat.JSON_LD
    quads = ox.parse(stream, format, base_iri=task.base_iri, lenient=True)  # type: ignore[arg-type]
    n = 0
    for _ in quads:
        n += 1
    return n


def _with_contexts(data: bytes, task: Task) -> bytes:
    """The document with contexts in the place of their addresses; what is not JSON stays."""
    from kg_loaders.rdf.contexts import Contexts

    try:
        document = json.loads(data)
    except ValueError:
        return data  # the parser names the place
    Contexts(task.contexts, task.context_bytes).put_into(document)
    return json.dumps(document).encode()


def _missing_contexts(task: Task) -> list[str]:
    """The addresses that a document names and no file is at hand for."""
    from kg_loaders.rdf.contexts import addresses

    sys.stdin.seek(0)
    data = _as_one(sys.stdin.buffer.read())
    return addresses(json.loads(_with_contexts(data, task) if task.contexts else data))


def new_predicates(rows: Iterable[Row]) -> Iterator[Row]:
    """A row of each predicate, and of each property that an OWL restriction is on."""
    known: dict[str, None] = {}
    for subject, predicate, value in rows:
        names = [predicate] if predicate else []
        if predicate == ON_PROPERTY and isinstance(value, str) and subject and is_blank(subject):
            names += [] if is_blank(value) else [value]  # of an OWL restriction
        for name in names:
            if name not in known:
                known[name] = None
                yield None, name, None


def _send(rows: Iterable[Row], sink: BinaryIO, renew: Callable[[], None]) -> int:
    """Write every row before a fault, and then raise it; returns how many rows there were."""
    batch: list[Row] = []
    n_bytes = n_rows = 0
    try:
        for row in rows:
            tail = row[2]
            size = len(row[1]) + len((tail if isinstance(tail, str) else tail[0]) if tail else "")
            if size > TERM_BYTES:
                raise TermTooLongError
            batch.append(row)
            n_bytes += size
            n_rows += 1
            if len(batch) == FRAME_ROWS or n_bytes > FRAME_BYTES or not row[1]:
                _write(Frame(batch), sink)
                batch, n_bytes = [], 0
                renew()
    finally:
        if batch:
            _write(Frame(batch), sink)
    return n_rows


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
