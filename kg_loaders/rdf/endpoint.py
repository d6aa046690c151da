"""The answers of a SPARQL endpoint as a file of N-Triples: page by page, resumed, politely.

A query is a SELECT of three variables in an ORDER BY (else pages may overlap): subject, predicate,
object. It is asked with LIMIT and OFFSET until a page is empty, since a server may answer with
fewer rows than were asked for. One question at a time, with a pause between them; a server that is
busy (429, 500, 502, 503, 504) is asked again after the time that it names, or after a growing one.
Pages lie whole in a folder of their own, so a reading that was cut goes on behind the last.

A server may be broken or hostile: an answer has a time in which it is to be complete, a size
(`document_bytes` of the `ReaderBudget`) and no more rows than its LIMIT; all pages together have
`most_rows`; a page that came before shows that OFFSET is ignored; a redirect is followed only where
it keeps the query (307, 308) and leads to http(s).
"""

from __future__ import annotations

import hashlib
import http.client
import re
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import IO, Any

import msgspec
import pyoxigraph as ox

from kg_loaders.budget import ReaderBudget
from kg_loaders.disk.writing import claim, whole_file, write_bytes
from kg_loaders.errors import QueryError, SourceError

PAGE_ROWS = 5_000
PAUSE = 1.0
"""Seconds between two questions."""
BUSY = (429, 500, 502, 503, 504)
MOST_TRIES = 6
LONGEST_WAIT = 300.0
TIMEOUT = 300
"""Seconds in which a server that is silent has to send something."""
ANSWER_SECONDS = 900.0
"""Seconds in which an answer has to be complete."""
MOST_ROWS = 100_000_000
WHOLE_AS_CSV = "let it write the whole answer as CSV (Accept: text/csv) and read that file"
READ_BYTES = 1 << 16
N_RECENT = 16
"""Pages before the last with which it is compared."""
STATE = "pages.json"
_NOISE = re.compile(
    r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|<[^<>\s]*>|#[^\n]*'
)
_LABEL = re.compile(r"(?<![^ ])_:\S+")
_PREFIX = re.compile(r"\s*(?:PREFIX\s+\S*\s*<>|BASE\s+<>)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom to ask, and how: `contact` is sent along, for the owner to write to.

    `most_rows` are taken in all, and `answer_seconds` is the time for one page.
    """

    url: str
    page_rows: int = PAGE_ROWS
    pause: float = PAUSE
    contact: str = ""
    most_rows: int = MOST_ROWS
    answer_seconds: float = ANSWER_SECONDS

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError(f"{self.url!r} is not an address of an endpoint: give http(s)://...")

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.url).hostname or ""


class _State(msgspec.Struct):
    """What the pages in a folder answer; `offset`: the rows that they hold; `recent`: digests."""

    endpoint: str
    query: str
    offset: int = 0
    n_pages: int = 0
    is_finished: bool = False
    recent: tuple[str, ...] = ()


def fetch(
    endpoint: Endpoint,
    query: str,
    folder: Path,
    *,
    budget: ReaderBudget | None = None,
    report: Callable[[int], None] = lambda n_rows: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Return all answers as one file of N-Triples in `folder`, fetching what is missing.

    The file is called after the endpoint's host, as a graph's sources then are. `report` hears how
    many rows there are so far. Raises `QueryError` for a query that cannot be asked in pages,
    `SourceError` for an endpoint that fails or does not answer as SPARQL's protocol says,
    `BudgetError` for a page that is larger than the budget's `document_bytes`.
    """
    require_pages(query)
    budget = budget or ReaderBudget.from_environment()
    folder.mkdir(parents=True, exist_ok=True)
    with claim(folder / "pages"):
        state = _opened(folder / STATE, endpoint, query)
        while not state.is_finished:
            if state.n_pages:
                sleep(endpoint.pause)
            paged = f"{query}\nLIMIT {endpoint.page_rows} OFFSET {state.offset}"
            rows = list(_rows(_request(endpoint, paged, budget, sleep), endpoint, state.offset))
            if rows:
                state.recent = _with_new_page(endpoint, state, rows)
                with whole_file(_page(folder, state.n_pages), force=True) as part:
                    ox.serialize(rows, part, ox.RdfFormat.N_TRIPLES)
                state.n_pages += 1
                state.offset += len(rows)
            state.is_finished = not rows
            write_bytes(folder / STATE, msgspec.json.encode(state), force=True)
            report(state.offset)
        joined = folder / f"{endpoint.host}.nt"
        with whole_file(joined, force=True) as part, part.open("wb") as sink:
            for number in range(state.n_pages):
                sink.write(_page(folder, number).read_bytes())
    return joined


def _with_new_page(endpoint: Endpoint, state: _State, rows: Sequence[ox.Triple]) -> tuple[str, ...]:
    """The digests of the last pages, this one included; `SourceError` for one that came before."""
    if state.offset + len(rows) > endpoint.most_rows:
        raise SourceError(
            f"{endpoint.url} has more than {endpoint.most_rows} rows; if you trust it, take more "
            "with --most-rows, or narrow the query"
        )
    digest = _digest(rows)
    if digest in state.recent:
        raise SourceError(
            f"{endpoint.url} sent the same {len(rows)} rows again for OFFSET {state.offset}: the "
            "query repeats rows (then write SELECT DISTINCT), or the endpoint ignores OFFSET: "
            f"{WHOLE_AS_CSV}"
        )
    return (*state.recent, digest)[-N_RECENT:]


def _digest(rows: Sequence[ox.Triple]) -> str:
    """A hash of rows in any order and with any labels of blank nodes."""
    lines = sorted(_LABEL.sub("_:", str(row)) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def remove_pages(folder: Path) -> None:
    """Remove what `fetch` left in `folder`, and `folder` if nothing else is in it."""
    for path in [folder / STATE, *folder.glob("*.nt")]:
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _page(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.nt"


def _opened(path: Path, endpoint: Endpoint, query: str) -> _State:
    """The state of earlier pages, or a new one; refuses pages of another question."""
    if not path.exists():
        return _State(endpoint.url, query)
    try:
        state = msgspec.json.decode(path.read_bytes(), type=_State)
    except (msgspec.DecodeError, OSError) as error:
        raise SourceError(f"{path} cannot be read ({error}); remove {path.parent}") from error
    if (state.endpoint, state.query) != (endpoint.url, query):
        raise SourceError(
            f"{path.parent} holds the answers of {state.endpoint} to another query; remove it, or "
            "name another folder with --work"
        )
    return state


def require_pages(query: str) -> None:
    """Raise `QueryError` unless a query can be asked page by page.

    >>> require_pages("SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o")
    >>> require_pages("SELECT ?s ?p ?o { ?s ?p ?o }")
    Traceback (most recent call last):
    kg_loaders.errors.QueryError: the query has no ORDER BY: pages would overlap, or miss rows
    """
    body = _NOISE.sub(lambda noise: "<>" if noise[0].startswith("<") else " ", query)
    while match := _PREFIX.match(body):
        body = body[match.end() :]
    outer = ""
    while outer != body:  # what stands in braces goes, the innermost first
        outer, body = body, re.sub(r"\{[^{}]*\}", " ", body)
    outer = outer.upper()
    if not re.match(r"\s*SELECT\b", outer):
        raise QueryError("the query must be a SELECT of subject, predicate and object")
    if "{" in outer or "}" in outer:
        raise QueryError("the braces of the query do not match")
    if match := re.search(r"\b(LIMIT|OFFSET|VALUES)\b", outer):
        raise QueryError(f"leave {match[0]} out at the end of the query: pages are made of it")
    if not re.search(r"\bORDER\s+BY\b", outer):
        raise QueryError("the query has no ORDER BY: pages would overlap, or miss rows")


class _Deadline:
    """Ends the connections of one question when its time is over."""

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._timer.cancel()
        for connection in self._sockets:
            connection.close()

    def watch(self, connection: socket.socket) -> None:
        """Include a connection."""
        self._sockets.append(connection)
        if self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections that a deadline ends."""

    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Open a plain connection."""
        return self.do_open(self._watched(http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Open a connection over TLS."""
        return self.do_open(self._watched(http.client.HTTPSConnection), req)

    def _watched(self, kind: Callable[..., http.client.HTTPConnection]) -> Any:
        deadline = self._deadline

        def connection(host: str, **options: Any) -> http.client.HTTPConnection:
            opened = kind(host, **options)
            connect = opened.connect

            def watched_connect() -> None:
                connect()
                deadline.watch(opened.sock)

            opened.connect = watched_connect  # type: ignore[method-assign]
            return opened

        return connection


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects that keep the query, to http(s) alone and never from https to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request:
        """Return the same question to another address."""
        start, end = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if end not in ("http", "https") or (start, end) == ("https", "http"):
            fp.close()
            raise SourceError(
                f"{req.full_url} redirects to {newurl!r}, and only http(s) is followed, not from "
                "https to http; name the address that answers queries with --sparql"
            )
        if code not in (307, 308):
            fp.close()
            raise SourceError(
                f"{req.full_url} redirects to {newurl!r} with {code}, which loses the query; name "
                f"that address: --sparql {newurl}"
            )
        return urllib.request.Request(newurl, data=req.data, headers=dict(req.header_items()))


def _request(
    endpoint: Endpoint, query: str, budget: ReaderBudget, sleep: Callable[[float], None]
) -> bytes:
    """The body of an answer; a busy server is asked again."""
    agent = f"kept ({endpoint.contact or 'knowledge graphs for language models'})"
    request = urllib.request.Request(
        endpoint.url,
        data=urllib.parse.urlencode({"query": query}).encode(),
        headers={"Accept": "application/sparql-results+json", "User-Agent": agent},
    )
    last = ""
    for attempt in range(MOST_TRIES):
        with _Deadline(endpoint.answer_seconds) as deadline:
            try:
                return _body(request, endpoint, budget, deadline)
            except urllib.error.HTTPError as error:
                message = _start_of(error)
                last = f"{error.code} {_printable(str(error.reason))}"
                if error.code not in BUSY:
                    raise SourceError(
                        f"{endpoint.url} refused the query: {last}: {message}"
                    ) from error
                wait = _named_wait(error.headers.get("Retry-After"))
            except SourceError:
                raise
            except (OSError, HTTPException, ValueError) as error:  # no connection, cut, no HTTP
                if deadline.is_over:
                    raise _too_slow(endpoint) from error
                last, wait = _printable(str(error)) or type(error).__name__, None
        if attempt + 1 < MOST_TRIES:
            sleep(min(wait if wait is not None else 2.0**attempt, LONGEST_WAIT))
    raise SourceError(
        f"{endpoint.url} did not answer {MOST_TRIES} times (the last: {last}); the same command "
        "goes on behind the last page"
    )


def _body(
    request: urllib.request.Request, endpoint: Endpoint, budget: ReaderBudget, deadline: _Deadline
) -> bytes:
    """The whole body of one answer, within its time and its size."""
    opener = urllib.request.build_opener(_Handler(deadline), _Redirects())
    with opener.open(request, timeout=min(TIMEOUT, endpoint.answer_seconds)) as reply:
        parts: list[bytes] = []
        n_bytes = 0
        while block := reply.read1(READ_BYTES):
            parts.append(block)
            n_bytes += len(block)
            budget.check(endpoint.url, {"document_bytes": n_bytes})
        if deadline.is_over:
            raise _too_slow(endpoint)
        length = reply.headers.get("Content-Length", "")
        if length.isascii() and length.isdecimal() and n_bytes < int(length[:18]):
            raise IncompleteRead(b"".join(parts))
        return b"".join(parts)


def _too_slow(endpoint: Endpoint) -> SourceError:
    return SourceError(
        f"{endpoint.url} did not send a whole answer in {endpoint.answer_seconds:g} seconds; ask "
        "for fewer rows at once (--page-rows); the same command goes on behind the last page"
    )


def _start_of(error: urllib.error.HTTPError) -> str:
    """The first words of an answer that says what is wrong."""
    try:
        return _printable(error.read(400).decode("utf-8", "replace")).strip()
    except (OSError, HTTPException, ValueError):
        return ""
    finally:
        error.close()


def _printable(text: str) -> str:
    """A text of a server without characters that a terminal obeys."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _named_wait(header: str | None) -> float | None:
    """Seconds that a server asks to wait; dates are not read, they ask for a growing wait."""
    is_number = header is not None and header.isascii() and header.isdecimal()
    return float(header[:9]) if header is not None and is_number else None


def _rows(body: bytes, endpoint: Endpoint, offset: int) -> Iterator[ox.Triple]:
    """The rows of a page as statements."""
    try:
        answers = ox.parse_query_results(body, ox.QueryResultsFormat.JSON)
        if not isinstance(answers, ox.QuerySolutions) or len(answers.variables) != 3:
            raise QueryError("the query must select three variables: subject, predicate, object")
        for number, row in enumerate(answers, offset + 1):
            if number > offset + endpoint.page_rows:
                raise SourceError(
                    f"{endpoint.url} sent more than the {endpoint.page_rows} rows of LIMIT: it "
                    f"ignores LIMIT; {WHOLE_AS_CSV}"
                )
            yield _statement(list(row), number)
    except (SyntaxError, ValueError) as error:
        if isinstance(error, QueryError):
            raise
        raise SourceError(f"{endpoint.url} sent no SPARQL results in JSON: {error}") from error


def _statement(terms: list[object], number: int) -> ox.Triple:
    subject, predicate, value = terms
    if (
        not isinstance(subject, ox.NamedNode | ox.BlankNode)
        or not isinstance(predicate, ox.NamedNode)
        or not isinstance(value, ox.NamedNode | ox.BlankNode | ox.Literal)
    ):
        raise QueryError(
            f"row {number} is not a statement: {subject} {predicate} {value}; select a subject, a "
            "predicate that is an IRI, and an object, all of them bound"
        )
    return ox.Triple(subject, predicate, value)
