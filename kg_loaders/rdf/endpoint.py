"""The answers of a SPARQL endpoint as a file of N-Triples: page by page, resumed, politely.

A query is a SELECT of three variables in an ORDER BY (else pages may overlap): subject, predicate,
object. It is asked with LIMIT and OFFSET until a page is empty, since a server may answer with
fewer rows than were asked for. One question at a time, with a pause between them; a server that is
busy (429, 500, 502, 503, 504) is asked again after the time that it names, or after a growing one.
Pages lie whole in a folder of their own, so a reading that was cut goes on behind the last.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from pathlib import Path

import msgspec
import pyoxigraph as ox

from kg_loaders.disk.writing import claim, whole_file, write_bytes
from kg_loaders.errors import BudgetError, QueryError, SourceError
from kg_loaders.reading.budget import ReaderBudget

PAGE_ROWS = 5_000
PAUSE = 1.0
"""Seconds between two questions."""
BUSY = (429, 500, 502, 503, 504)
MOST_TRIES = 6
LONGEST_WAIT = 300.0
TIMEOUT = 300
STATE = "pages.json"
_NOISE = re.compile(
    r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|<[^<>\s]*>|#[^\n]*'
)
_PREFIX = re.compile(r"\s*(?:PREFIX\s+\S*\s*<>|BASE\s+<>)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom to ask, and how: `contact` is sent along, for the owner to write to."""

    url: str
    page_rows: int = PAGE_ROWS
    pause: float = PAUSE
    contact: str = ""

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceError(f"{self.url!r} is no address of an endpoint: give http(s)://...")

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.url).hostname or ""


class _State(msgspec.Struct):
    """What the pages in a folder answer; `offset`: the rows that they hold."""

    endpoint: str
    query: str
    offset: int = 0
    n_pages: int = 0
    is_finished: bool = False


def fetch(
    endpoint: Endpoint,
    query: str,
    folder: Path,
    *,
    budget: ReaderBudget | None = None,
    tell: Callable[[int], None] = lambda n_rows: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Return all answers as one file of N-Triples in `folder`, fetching what is missing.

    The file is called after the endpoint's host, as a graph's sources then are. `tell` hears how
    many rows there are so far. Raises `QueryError` for a query that cannot be asked in pages,
    `SourceError` for an endpoint that fails, `BudgetError` for a page that is larger than the
    budget's `document_bytes`.
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
            rows = list(_rows(_asked(endpoint, paged, budget, sleep), endpoint, state.offset))
            if rows:
                with whole_file(_page(folder, state.n_pages), force=True) as part:
                    ox.serialize(rows, part, ox.RdfFormat.N_TRIPLES)
                state.n_pages += 1
                state.offset += len(rows)
            state.is_finished = not rows
            write_bytes(folder / STATE, msgspec.json.encode(state), force=True)
            tell(state.offset)
        joined = folder / f"{endpoint.host}.nt"
        with whole_file(joined, force=True) as part, part.open("wb") as sink:
            for number in range(state.n_pages):
                sink.write(_page(folder, number).read_bytes())
    return joined


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
    bare = _NOISE.sub(lambda noise: "<>" if noise[0].startswith("<") else " ", query)
    while found := _PREFIX.match(bare):
        bare = bare[found.end() :]
    outer = ""
    while outer != bare:  # what stands in braces goes, the innermost first
        outer, bare = bare, re.sub(r"\{[^{}]*\}", " ", bare)
    outer = outer.upper()
    if not re.match(r"\s*SELECT\b", outer):
        raise QueryError("the query must be a SELECT of subject, predicate and object")
    if "{" in outer or "}" in outer:
        raise QueryError("the braces of the query do not match")
    if found := re.search(r"\b(LIMIT|OFFSET|VALUES)\b", outer):
        raise QueryError(f"leave {found[0]} out at the end of the query: pages are made of it")
    if not re.search(r"\bORDER\s+BY\b", outer):
        raise QueryError("the query has no ORDER BY: pages would overlap, or miss rows")


def _asked(
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
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                limit = budget.document_bytes
                body: bytes = reply.read(limit + 1)
                budget.check(endpoint.url, {"document_bytes": len(body)})
                if len(body) < int(reply.headers.get("Content-Length", 0)):
                    raise IncompleteRead(body)
                return body
        except urllib.error.HTTPError as error:
            last = f"{error.code} {error.reason}"
            if error.code not in BUSY:
                said = error.read(400).decode("utf-8", "replace").strip()
                raise SourceError(f"{endpoint.url} refused the query: {last}: {said}") from error
            wait = _named_wait(error.headers.get("Retry-After"))
        except BudgetError:
            raise
        except (OSError, HTTPException) as error:  # no connection, or cut in the middle
            last, wait = str(error) or type(error).__name__, None
        if attempt + 1 < MOST_TRIES:
            sleep(min(wait if wait is not None else 2.0**attempt, LONGEST_WAIT))
    raise SourceError(
        f"{endpoint.url} did not answer {MOST_TRIES} times (the last: {last}); the same command "
        "goes on behind the last page"
    )


def _named_wait(header: str | None) -> float | None:
    """Seconds that a server asks to wait; dates are not read, they ask for a growing wait."""
    return float(header) if header and header.isdecimal() else None


def _rows(body: bytes, endpoint: Endpoint, offset: int) -> Iterator[ox.Triple]:
    """The rows of a page as statements."""
    try:
        answers = ox.parse_query_results(body, ox.QueryResultsFormat.JSON)
        if not isinstance(answers, ox.QuerySolutions) or len(answers.variables) != 3:
            raise QueryError("the query must select three variables: subject, predicate, object")
        for number, row in enumerate(answers, offset + 1):
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
            f"row {number} is no statement: {subject} {predicate} {value}; select a subject, a "
            "predicate that is an IRI, and an object, all of them bound"
        )
    return ox.Triple(subject, predicate, value)
